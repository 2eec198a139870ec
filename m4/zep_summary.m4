# ZEP_SUMMARY: what was found, at the end of configure.
AC_DEFUN([ZEP_SUMMARY], [
  AC_MSG_NOTICE([
zeppelin $PACKAGE_VERSION
  MPI (runtime zeppelin-rank)     $have_mpi
  matrix products                 $have_blas
  AVX2 and AVX-512 kernels        $have_x86simd
  hwloc (zeppelin-detect-local)   $have_hwloc
  Slurm (zeppelin-detect-slurm)   $have_slurm
  expat (NCCL topology XML)       $have_expat
  curl (helpers of Kubernetes)    $have_curl
  Check (unit tests)              $have_check
  GLPK (a test of remapping)      $have_glpk
  sanitizers                      $enable_sanitize
  CUDA, NCCL                      not built in this version])
])
