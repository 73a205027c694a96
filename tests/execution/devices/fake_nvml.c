/* A stand-in for libnvidia-ml.so.1 with two GPUs, as far as the plugin asks. Structures as in nvml.h of CUDA 12.
 *
 * GPU 0 answers everything; GPU 1 is a plain card that supports little. Tests turn the switches with fake_set.
 * The file FAKE_NVML_EVENTS names has a line "GPU XID" for each event; while the file FAKE_NVML_HANG names exists, waiting
 * for events and measuring hang.
 * Beside the library, holders/<gpu>/<pid> is a process on a GPU, with the bytes it takes: written by fake_cuda.c. */

#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SUCCESS = 0, INVALID = 2, NOT_SUPPORTED = 3, TOO_SMALL = 7, TIMEOUT = 10, IS_LOST = 15 };

typedef struct { int gpu; int slice; } device;
typedef struct { char legacy[16]; unsigned domain, bus, device, pci_id, subsystem_id; char bus_id[32]; } pci_info;
typedef struct { unsigned long long total, free, used; } memory_v1;
typedef struct { unsigned version; unsigned long long total, reserved, free, used; } memory_v2;
typedef struct { unsigned gpu, memory; } utilization;
typedef struct { unsigned pid; unsigned long long memory; unsigned gpu_instance, compute_instance; } process;
typedef struct {
    unsigned multiprocessors, copy, decoder, encoder, jpeg, ofa, gpu_slices, compute_slices;
    unsigned long long memory_mb;
} attributes;

static struct { int init, gpus, users, lost, mig, ecc, rows_failed, on_switch, pid, old_driver, throttle, replays; } now;
static device whole[2] = {{0, -1}, {1, -1}};
static device slices[2] = {{0, 0}, {0, 1}};
static const char *uuids[2] = {"GPU-00000000-aaaa-0000-0000-000000000000", "GPU-11111111-bbbb-0000-0000-000000000000"};
static const char *slice_uuids[2] = {"MIG-22222222-cccc-0000-0000-000000000000", "MIG-33333333-dddd-0000-0000-000000000000"};
static const char *buses[2] = {"00000000:17:00.0", "00000000:CA:00.0"};

void fake_reset(void) { memset(&now, 0, sizeof now); now.gpus = 2; now.lost = -1; }

__attribute__((constructor)) static void begin(void) { fake_reset(); }

int fake_users(void) { return now.users; }

int fake_set(const char *name, int value) {
    if (!strcmp(name, "init")) now.init = value;
    else if (!strcmp(name, "gpus")) now.gpus = value;
    else if (!strcmp(name, "lost")) now.lost = value;
    else if (!strcmp(name, "mig")) now.mig = value;
    else if (!strcmp(name, "ecc")) now.ecc = value;
    else if (!strcmp(name, "rows_failed")) now.rows_failed = value;
    else if (!strcmp(name, "on_switch")) now.on_switch = value;
    else if (!strcmp(name, "pid")) now.pid = value;
    else if (!strcmp(name, "old_driver")) now.old_driver = value;
    else if (!strcmp(name, "throttle")) now.throttle = value;
    else if (!strcmp(name, "replays")) now.replays = value;
    else return -1;
    return 0;
}

static int ready(const device *d) { return d->gpu == now.lost ? IS_LOST : SUCCESS; }

int nvmlInitWithFlags(unsigned flags) { (void)flags; if (now.init) return now.init; now.users++; return SUCCESS; }
int nvmlShutdown(void) { now.users--; return SUCCESS; }
const char *nvmlErrorString(int code) { (void)code; return "an error of the fake"; }
int nvmlSystemGetDriverVersion(char *text, unsigned size) { snprintf(text, size, "580.95.05"); return SUCCESS; }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { *version = 13000; return SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = now.gpus; return now.init; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, device **handle) {
    if ((int)index >= now.gpus) return INVALID;
    if ((int)index == now.lost) return IS_LOST;
    *handle = &whole[index];
    return SUCCESS;
}

int nvmlDeviceGetUUID(device *d, char *text, unsigned size) {
    snprintf(text, size, "%s", d->slice < 0 ? uuids[d->gpu] : slice_uuids[d->slice]);
    return SUCCESS;
}

int nvmlDeviceGetName(device *d, char *text, unsigned size) {
    snprintf(text, size, "%s", d->slice < 0 ? "NVIDIA H100 80GB HBM3" : "NVIDIA H100 80GB HBM3 MIG 3g.40gb");
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(device *d, memory_v1 *m) {
    m->total = d->slice < 0 ? 85520809984ULL : 42144366592ULL;
    m->used = 600 << 20;
    m->free = m->total - m->used;
    return ready(d);
}

int nvmlDeviceGetMemoryInfo_v2(device *d, memory_v2 *m) {
    if (d->gpu == 1) return NOT_SUPPORTED;
    m->total = 85520809984ULL;
    m->reserved = 500 << 20;
    m->used = 100 << 20;
    return ready(d);
}

static void hang(void) {
    const char *path = getenv("FAKE_NVML_HANG");
    while (path && !access(path, F_OK)) usleep(20000);
}

int nvmlDeviceGetUtilizationRates(device *d, utilization *u) {
    hang();
    if (d->slice >= 0) return NOT_SUPPORTED;
    u->gpu = 37;
    return ready(d);
}

int nvmlDeviceGetTemperature(device *d, int sensor, unsigned *celsius) { (void)sensor; *celsius = 41; return ready(d); }

int nvmlDeviceGetPowerUsage(device *d, unsigned *milliwatts) {
    if (d->gpu == 1 || d->slice >= 0) return NOT_SUPPORTED;
    *milliwatts = 123500;
    return ready(d);
}

int nvmlDeviceGetTotalEccErrors(device *d, int kind, int since, unsigned long long *count) {
    (void)kind; (void)since;
    if (d->gpu == 1) return NOT_SUPPORTED;
    *count = now.ecc;
    return SUCCESS;
}

int nvmlDeviceGetRemappedRows(device *d, unsigned *c, unsigned *u, unsigned *pending, unsigned *failed) {
    if (d->gpu == 1) return NOT_SUPPORTED;
    *c = *u = *pending = 0;
    *failed = now.rows_failed;
    return SUCCESS;
}

int nvmlDeviceGetMinorNumber(device *d, unsigned *minor) {
    if (d->slice >= 0 || now.old_driver == 2) return NOT_SUPPORTED;
    *minor = 3 - d->gpu;
    return SUCCESS;
}

int nvmlDeviceGetMigMode(device *d, unsigned *current, unsigned *pending) {
    if (d->gpu == 1) return NOT_SUPPORTED;
    *current = *pending = now.mig > 0;
    return SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(device *d, unsigned *count) { *count = d->gpu == 0 ? 7 : 0; return SUCCESS; }

/* mig = 1: on, nothing cut; 2: slices at places 0 and 3. */
int nvmlDeviceGetMigDeviceHandleByIndex(device *d, unsigned index, device **slice) {
    (void)d;
    if (now.mig != 2 || (index != 0 && index != 3)) return 6;
    *slice = &slices[index == 3];
    return SUCCESS;
}

int nvmlDeviceGetAttributes_v2(device *d, attributes *a) {
    if (d->slice < 0) return NOT_SUPPORTED;
    memset(a, 0, sizeof *a);
    a->multiprocessors = 60;
    a->memory_mb = 40192;
    return SUCCESS;
}

static int pci(int gpu, pci_info *p) {
    memset(p, 0, sizeof *p);
    snprintf(p->bus_id, sizeof p->bus_id, "%s", gpu < 0 ? "00000000:05:00.0" : buses[gpu]);
    return SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(device *d, pci_info *p) { return d->slice < 0 ? pci(d->gpu, p) : NOT_SUPPORTED; }

int nvmlDeviceGetMemoryAffinity(device *d, unsigned words, unsigned long *mask, int scope) {
    (void)scope;
    memset(mask, 0, words * sizeof *mask);
    mask[d->gpu] = 4;
    return SUCCESS;
}

/* Links 0..3; the odd ones are down. */
int nvmlDeviceGetNvLinkState(device *d, unsigned link, unsigned *active) {
    (void)d;
    if (link >= 4) return INVALID;
    *active = link % 2 == 0;
    return SUCCESS;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(device *d, unsigned link, unsigned *kind) {
    (void)d; (void)link;
    *kind = now.on_switch ? 2 : 0;
    return SUCCESS;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(device *d, unsigned link, pci_info *p) {
    (void)link;
    return pci(now.on_switch ? -1 : 1 - d->gpu, p);
}

static unsigned holders(int gpu, process *list, unsigned room) {
    Dl_info own;
    char folder[4096], path[8192];
    dladdr((void *)fake_reset, &own);
    snprintf(folder, sizeof folder, "%.*sholders/%d", (int)(strrchr(own.dli_fname, '/') + 1 - own.dli_fname),
             own.dli_fname, gpu);
    DIR *found = opendir(folder);
    unsigned count = 0;
    for (struct dirent *entry; found && (entry = readdir(found));) {
        int pid = atoi(entry->d_name);
        unsigned long long bytes = 0;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        FILE *file = pid > 0 && kill(pid, 0) == 0 ? fopen(path, "r") : NULL;
        if (!file) continue;
        if (fscanf(file, "%llu", &bytes) == 1 && count++ < room) list[count - 1] = (process){pid, bytes, ~0u, ~0u};
        fclose(file);
    }
    if (found) closedir(found);
    return count;
}

static int listed(device *d, unsigned *count, void *list, unsigned long long memory) {
    unsigned room = *count;
    if (!now.pid) {
        *count = holders(d->gpu, list, room);
        return *count > room ? TOO_SMALL : SUCCESS;
    }
    *count = now.pid && d->gpu == 0 ? 1 : 0;
    if (*count > room) return TOO_SMALL;
    if (*count) *(process *)list = (process){now.pid, memory, ~0u, ~0u};
    return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(device *d, unsigned *count, void *list) {
    if (now.old_driver) return 13;
    return listed(d, count, list, 300 << 20);
}

int nvmlDeviceGetComputeRunningProcesses_v2(device *d, unsigned *count, void *list) {
    return listed(d, count, list, 300 << 20);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(device *d, unsigned *count, void *list) {
    if (d->gpu == 1) return NOT_SUPPORTED;
    return listed(d, count, list, 200 << 20);
}

typedef struct { device *d; unsigned long long type, data; unsigned gpu_instance, compute_instance; } event;

int nvmlEventSetCreate(void **set) { *set = &now; return SUCCESS; }
int nvmlEventSetFree(void *set) { (void)set; return SUCCESS; }
int nvmlDeviceRegisterEvents(device *d, unsigned long long types, void *set) { (void)d; (void)types; (void)set; return SUCCESS; }

int nvmlEventSetWait_v2(void *set, event *e, unsigned milliseconds) {
    static long read_up_to;
    (void)set;
    const char *path = getenv("FAKE_NVML_EVENTS");
    for (unsigned waited = 0; waited <= milliseconds; waited += 20) {
        hang();
        FILE *file = path ? fopen(path, "r") : NULL;
        int gpu;
        unsigned long long xid;
        char line[64] = "";
        if (file) {
            fseek(file, read_up_to, SEEK_SET);
            if (fgets(line, sizeof line, file) && strchr(line, '\n')) read_up_to = ftell(file);
            else line[0] = 0;
            fclose(file);
        }
        if (sscanf(line, "%d %llu", &gpu, &xid) == 2) {
            memset(e, 0, sizeof *e);
            e->d = &whole[gpu];
            e->type = 8;
            e->data = xid;
            return SUCCESS;
        }
        usleep(20000);
    }
    return TIMEOUT;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(device *d, unsigned long long *reasons) {
    *reasons = d->gpu == 0 ? now.throttle : 0;
    return d->gpu == 0 ? ready(d) : NOT_SUPPORTED;
}

int nvmlDeviceGetNvLinkErrorCounter(device *d, unsigned link, int counter, unsigned long long *value) {
    *value = link == 0 && counter == 0 ? now.replays : 0;
    return d->gpu == 0 && link == 0 ? SUCCESS : INVALID;
}
