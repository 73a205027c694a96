/* A stand-in for libcuda.so.1 with the GPUs of fake_nvml.c, as far as the probe asks.
 *
 * Shows what CUDA_VISIBLE_DEVICES names, in its order. What is taken is told to fake_nvml.c by a file beside the
 * library, holders/<gpu>/<pid>. A file `careless` beside it makes it show every GPU, whatever is asked. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, OUT_OF_MEMORY = 2, NO_DEVICE = 100, GPUS = 2 };

static const char *uuids[GPUS] = {"GPU-00000000-aaaa-0000-0000-000000000000", "GPU-11111111-bbbb-0000-0000-000000000000"};
static int visible[GPUS], count;

static void beside(char *path, size_t size, const char *name) {
    Dl_info own;
    dladdr((void *)beside, &own);
    snprintf(path, size, "%.*s%s", (int)(strrchr(own.dli_fname, '/') + 1 - own.dli_fname), own.dli_fname, name);
}

int cuInit(unsigned flags) {
    char careless[4096], asked[4096];
    const char *variable = getenv("CUDA_VISIBLE_DEVICES");
    (void)flags;
    count = 0;
    beside(careless, sizeof careless, "careless");
    if (!variable || access(careless, F_OK) == 0) {
        for (int gpu = 0; gpu < GPUS; gpu++) visible[count++] = gpu;
        return SUCCESS;
    }
    snprintf(asked, sizeof asked, "%s", variable);
    for (char *word = strtok(asked, ","); word; word = strtok(NULL, ","))
        for (int gpu = 0; gpu < GPUS; gpu++)
            if (!strcmp(word, uuids[gpu])) visible[count++] = gpu;
    return count ? SUCCESS : NO_DEVICE;
}

int cuDeviceGetCount(int *found) { *found = count; return SUCCESS; }
int cuDeviceGet(int *device, int index) { *device = visible[index]; return SUCCESS; }
int cuDeviceGetName(char *name, int size, int device) { (void)device; snprintf(name, size, "NVIDIA H100"); return SUCCESS; }
int cuDeviceTotalMem_v2(size_t *size, int device) { (void)device; *size = 85520809984ULL; return SUCCESS; }

int cuDeviceGetUuid_v2(unsigned char *uuid, int device) {
    const char *text = uuids[device] + 4;
    for (int byte = 0; byte < 16; text += 2) {
        if (*text == '-') text++;
        sscanf(text, "%2hhx", &uuid[byte++]);
    }
    return SUCCESS;
}

int cuDevicePrimaryCtxRetain(void **context, int device) { *context = &visible[device]; return SUCCESS; }
int cuCtxSetCurrent(void *context) { (void)context; return SUCCESS; }

int cuMemAlloc_v2(unsigned long long *place, size_t size) {
    char name[100], path[8192];
    *place = 1;
    snprintf(name, sizeof name, "holders/%d/%d", visible[0], getpid());
    beside(path, sizeof path, name);
    FILE *file = fopen(path, "w");
    if (!file) return OUT_OF_MEMORY;
    fprintf(file, "%zu", size);
    return fclose(file) ? OUT_OF_MEMORY : SUCCESS;
}
