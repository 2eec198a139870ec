/* A stand-in for libnvidia-ml.so.1: three GPUs in an order of its own, NVLinks, one GPU in MIG mode, one NVLink domain over nodes. Layouts as in NVIDIA's NVML reference. */
#include <stdio.h>
#include <string.h>

typedef struct fake *nvml_device_t;
typedef struct {
    char bus_id_legacy[16];
    unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
    char bus_id[32];
} nvml_pci_t;
typedef struct {
    unsigned long long total, free, used;
} nvml_memory_t;
typedef struct {
    unsigned char cluster_uuid[16];
    int status;
    unsigned clique_id;
    unsigned char state;
} nvml_fabric_t;
typedef struct {
    unsigned multiprocessors, copy_engines, decoders, encoders, jpegs, ofas, gpu_slices, compute_slices;
    unsigned long long memory_mib;
} nvml_attributes_t;

struct fake {
    unsigned bus;
    const char *uuid;
    int mig, n_slice;
};

static struct fake gpu[] = {{0x24, "GPU-24", 0, 0}, {0x03, "GPU-03", 0, 0}, {0x23, "GPU-23", 1, 2}};
static struct fake slice[] = {{0x23, "MIG-a", 0, 0}, {0x23, "MIG-b", 0, 0}};

int nvmlInit_v2(void);
int nvmlShutdown(void);
int nvmlDeviceGetCount_v2(unsigned *n);
int nvmlDeviceGetHandleByIndex_v2(unsigned i, nvml_device_t *out);
int nvmlDeviceGetPciInfo_v3(nvml_device_t d, nvml_pci_t *out);
int nvmlDeviceGetUUID(nvml_device_t d, char *out, unsigned size);
int nvmlDeviceGetName(nvml_device_t d, char *out, unsigned size);
int nvmlDeviceGetMemoryInfo(nvml_device_t d, nvml_memory_t *out);
int nvmlDeviceGetNvLinkState(nvml_device_t d, unsigned l, int *up);
int nvmlDeviceGetNvLinkVersion(nvml_device_t d, unsigned l, unsigned *v);
int nvmlDeviceGetNvLinkRemotePciInfo_v2(nvml_device_t d, unsigned l, nvml_pci_t *out);
int nvmlDeviceGetMigMode(nvml_device_t d, unsigned *now, unsigned *pending);
int nvmlDeviceGetMaxMigDeviceCount(nvml_device_t d, unsigned *n);
int nvmlDeviceGetMigDeviceHandleByIndex(nvml_device_t d, unsigned i, nvml_device_t *out);
int nvmlDeviceGetAttributes_v2(nvml_device_t d, nvml_attributes_t *out);
int nvmlDeviceGetGpuFabricInfo(nvml_device_t d, nvml_fabric_t *out);

int nvmlInit_v2(void)
{
    return 0;
}

int nvmlShutdown(void)
{
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned *n)
{
    *n = 4; /* the last one is hidden by a cgroup */
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned i, nvml_device_t *out)
{
    *out = i < 3 ? &gpu[i] : NULL;
    return i < 3 ? 0 : 4;
}

int nvmlDeviceGetPciInfo_v3(nvml_device_t d, nvml_pci_t *out)
{
    memset(out, 0, sizeof *out);
    out->bus = d->bus;
    snprintf(out->bus_id, sizeof out->bus_id, "00000000:%02X:00.0", d->bus);
    return 0;
}

int nvmlDeviceGetUUID(nvml_device_t d, char *out, unsigned size)
{
    snprintf(out, size, "%s", d->uuid);
    return 0;
}

int nvmlDeviceGetName(nvml_device_t d, char *out, unsigned size)
{
    (void)d;
    snprintf(out, size, "NVIDIA Fake 80GB");
    return 0;
}

int nvmlDeviceGetMemoryInfo(nvml_device_t d, nvml_memory_t *out)
{
    (void)d;
    *out = (nvml_memory_t){80000000000ull, 0, 0};
    return 0;
}

int nvmlDeviceGetNvLinkState(nvml_device_t d, unsigned l, int *up)
{
    (void)d;
    *up = l < 4;
    return l < 12 ? 0 : 2;
}

int nvmlDeviceGetNvLinkVersion(nvml_device_t d, unsigned l, unsigned *v)
{
    (void)d, (void)l;
    *v = 6; /* NVLink 4.0 */
    return 0;
}

/* 24 and 03 have two links to each other, the rest goes to a switch. */
int nvmlDeviceGetNvLinkRemotePciInfo_v2(nvml_device_t d, unsigned l, nvml_pci_t *out)
{
    memset(out, 0, sizeof *out);
    out->bus = l < 2 ? d->bus == 0x24 ? 0x03 : 0x24 : 0xc1;
    return 0;
}

int nvmlDeviceGetMigMode(nvml_device_t d, unsigned *now, unsigned *pending)
{
    *now = *pending = (unsigned)d->mig;
    return 0;
}

int nvmlDeviceGetMaxMigDeviceCount(nvml_device_t d, unsigned *n)
{
    (void)d;
    *n = 7;
    return 0;
}

int nvmlDeviceGetMigDeviceHandleByIndex(nvml_device_t d, unsigned i, nvml_device_t *out)
{
    if ((int)i >= d->n_slice)
        return 6;
    *out = &slice[i];
    return 0;
}

int nvmlDeviceGetAttributes_v2(nvml_device_t d, nvml_attributes_t *out)
{
    memset(out, 0, sizeof *out);
    out->compute_slices = d == &slice[0] ? 3 : 4;
    out->memory_mib = d == &slice[0] ? 40192 : 40200;
    return 0;
}

int nvmlDeviceGetGpuFabricInfo(nvml_device_t d, nvml_fabric_t *out)
{
    (void)d;
    memset(out, 0, sizeof *out);
    for (int i = 0; i < 16; i++)
        out->cluster_uuid[i] = (unsigned char)(i + 1);
    out->state = 3;
    return 0;
}
