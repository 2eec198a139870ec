/* What cppcheck cannot find out about libraries. */
#define json_array_foreach(array, index, value) for (index = 0; (value = json_array_get(array, index)); index++)
