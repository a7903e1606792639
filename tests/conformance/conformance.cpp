// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// The facts about CUDA between processes that the project stands on, checked one by one. Runs on
// the software device everywhere and, unchanged, on a GPU.
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/mount.h>

#include <chrono>
#include <functional>
#include <map>

#include "gst/cuda/driver.h"
#include "tests/conformance/peer.h"

extern "C" const unsigned char test_kernels_image[];

namespace conformance {
namespace {

using cudaipc::cu;

constexpr size_t kSize = 4 * 1024 * 1024;

// Driver functions that the product does not use.
template <typename F>
F symbol(const char* name) {
  return reinterpret_cast<F>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), name));
}

#define CHECK_CU(call) ASSERT_EQ(call, CUDA_SUCCESS) << #call
// For peers, which have no test to fail: leaves with a status of its own.
#define MUST(call)                                                 \
  do {                                                             \
    if (const CUresult code_ = (call); code_ != CUDA_SUCCESS) {    \
      fprintf(stderr, "conformance peer: %s: %d\n", #call, code_); \
      exit(3);                                                     \
    }                                                              \
  } while (0)

// The driver, a context and the kernels, for the life of the process.
struct Device {
  CUcontext context = nullptr;
  CUmodule module = nullptr;
  CUdevice device = 0;
  Device() {
    auto driver = cudaipc::load_driver();
    if (!driver) {
      fprintf(stderr, "%s\n", driver.error().message.c_str());
      exit(2);
    }
    MUST(cu().device_get(&device, 0));
    MUST(symbol<CUresult (*)(CUcontext*, unsigned, CUdevice)>("cuCtxCreate_v2")(&context, 0,
                                                                                device));
    MUST(cu().module_load_data(&module, test_kernels_image));
  }
  ~Device() {
    cu().module_unload(module);
    symbol<CUresult (*)(CUcontext)>("cuCtxDestroy_v2")(context);
  }
  CUresult launch(const char* kernel, void** params, CUstream stream = nullptr) const {
    CUfunction function;
    if (const CUresult code = cu().module_get_function(&function, module, kernel))
      return code;
    return cu().launch_kernel(function, 4, 1, 1, 64, 1, 1, 0, stream, params, nullptr);
  }
};
Device* device;

CUresult synchronise() {
  return cu().ctx_synchronize();
}

CUresult poke(CUdeviceptr p, unsigned value) {
  void* params[] = {&p, &value};
  if (const CUresult code = device->launch("poke", params))
    return code;
  return synchronise();
}
CUresult fill(CUdeviceptr p, unsigned long long n, unsigned value, CUstream stream = nullptr) {
  void* params[] = {&p, &n, &value};
  return device->launch("fill", params, stream);
}
CUresult delay(unsigned long long ns, CUstream stream) {
  void* params[] = {&ns};
  CUfunction function;
  if (const CUresult code = cu().module_get_function(&function, device->module, "delay_ns"))
    return code;
  return cu().launch_kernel(function, 1, 1, 1, 1, 1, 1, 0, stream, params, nullptr);
}
CUresult to_host(void* to, CUdeviceptr from, size_t size) {
  return symbol<CUresult (*)(void*, CUdeviceptr, size_t)>("cuMemcpyDtoH_v2")(to, from, size);
}
// The sum of bytes as a kernel sees them.
unsigned long long sum(CUdeviceptr p, unsigned long long n) {
  CUdeviceptr out;
  MUST(cu().mem_alloc(&out, 8));
  MUST(cu().memset_d8_async(out, 0, 8, nullptr));
  void* params[] = {&p, &n, &out};
  MUST(device->launch("sum", params));
  unsigned long long value = 0;
  MUST(to_host(&value, out, 8));
  cu().mem_free(out);
  return value;
}

CUmemAllocationProp properties() {
  CUmemAllocationProp p{};
  p.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  p.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  p.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  p.location.id = device->device;
  return p;
}
CUresult map(CUmemGenericAllocationHandle memory, CUmemAccess_flags access, CUdeviceptr* out) {
  if (const CUresult code = cu().mem_address_reserve(out, kSize, 0, 0, 0))
    return code;
  if (const CUresult code = cu().mem_map(*out, kSize, 0, memory, 0))
    return code;
  CUmemAccessDesc description{};
  description.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  description.location.id = device->device;
  description.flags = access;
  return cu().mem_set_access(*out, kSize, &description, 1);
}
void unmap(CUdeviceptr p) {
  synchronise();
  cu().mem_unmap(p, kSize);
  cu().mem_address_free(p, kSize);
}
struct Vmm {
  CUmemGenericAllocationHandle handle = 0;
  CUdeviceptr pointer = 0;
  int fd = -1;
};
Vmm make_vmm() {
  Vmm v;
  const CUmemAllocationProp p = properties();
  MUST(cu().mem_create(&v.handle, kSize, &p, 0));
  MUST(map(v.handle, CU_MEM_ACCESS_FLAGS_PROT_READWRITE, &v.pointer));
  MUST(cu().mem_export_to_shareable_handle(&v.fd, v.handle,
                                           CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  return v;
}
void free_vmm(Vmm& v) {
  unmap(v.pointer);
  cu().mem_release(v.handle);
  close(v.fd);
}
CUdeviceptr import_vmm(int fd, CUmemAccess_flags access) {
  CUmemGenericAllocationHandle handle;
  MUST(cu().mem_import_from_shareable_handle(&handle,
                                             reinterpret_cast<void*>(static_cast<intptr_t>(fd)),
                                             CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  CUdeviceptr p;
  MUST(map(handle, access, &p));
  cu().mem_release(handle);
  return p;
}

// A page of words that both processes and the device see.
struct Page {
  int fd = -1;
  volatile uint64_t* words = nullptr;
  CUdeviceptr address = 0;
};
Page open_page(int fd) {
  Page page;
  page.fd = fd;
  void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  MUST(cu().mem_host_register(memory, 4096,
                              CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP));
  MUST(cu().mem_host_get_device_pointer(&page.address, memory, 0));
  page.words = static_cast<volatile uint64_t*>(memory);
  return page;
}
Page make_page() {
  const int fd = memfd_create("page", MFD_CLOEXEC);
  if (ftruncate(fd, 4096) != 0)
    abort();
  return open_page(fd);
}
void close_page(const Page& page) {
  cu().mem_host_unregister(const_cast<uint64_t*>(page.words));
  munmap(const_cast<uint64_t*>(page.words), 4096);
  close(page.fd);
}
bool word_reaches(const volatile uint64_t& word, uint64_t value) {
  for (int i = 0; i < 20000; ++i) {
    if (__atomic_load_n(&word, __ATOMIC_ACQUIRE) >= value)
      return true;
    usleep(500);
  }
  return false;
}

// --- Peers: each a role by name

struct Shared {
  CUipcMemHandle memory;
  CUipcEventHandle event;
};

// Opens everything it is sent and says what each answered.
struct Answers {
  int legacy, event, vmm, semaphore;
};
void role_open_all(const Link& link) {
  Shared shared;
  int fd = -1, page_fd = -1, dummy;
  link.receive(shared, &fd);
  link.receive(dummy, &page_fd);
  Answers answers{};
  CUdeviceptr p = 0;
  answers.legacy = cu().ipc_open_mem_handle(&p, shared.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  if (answers.legacy == CUDA_SUCCESS) {
    answers.legacy = sum(p, 1000) == 7000 ? 0 : -1;
    cu().ipc_close_mem_handle(p);
  }
  CUevent event;
  answers.event = cu().ipc_open_event_handle(&event, shared.event);
  if (answers.event == CUDA_SUCCESS)
    cu().event_destroy(event);
  const CUdeviceptr v = import_vmm(fd, CU_MEM_ACCESS_FLAGS_PROT_READ);
  answers.vmm = sum(v, 1000) == 9000 ? 0 : -1;
  unmap(v);
  const Page page = open_page(page_fd);
  CUstream stream;
  MUST(cu().stream_create(&stream, CU_STREAM_NON_BLOCKING));
  MUST(cu().stream_wait_value_64(stream, page.address, 1, CU_STREAM_WAIT_VALUE_GEQ));
  MUST(cu().stream_write_value_64(stream, page.address + 8, 2, 0));
  link.send(answers);
  answers.semaphore = cu().stream_synchronize(stream);
  cu().stream_destroy(stream);
  close_page(page);
  link.send(answers);
}

// Maps memory read-only and writes to it.
void role_write_read_only(const Link& link) {
  int fd = -1, dummy;
  link.receive(dummy, &fd);
  const CUdeviceptr p = import_vmm(fd, CU_MEM_ACCESS_FLAGS_PROT_READ);
  const int read = sum(p, 100) == 900;
  const int wrote = poke(p, 1);
  link.send(read);
  link.send(wrote);
  // The context is lost: nothing to clean up.
  _exit(0);
}

// Opens one handle twice, and sums memory in every kind of mapping.
void role_map_everything(const Link& link) {
  Shared shared;
  int fd = -1;
  link.receive(shared, &fd);
  CUdeviceptr a = 0, b = 0;
  MUST(cu().ipc_open_mem_handle(&a, shared.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  MUST(cu().ipc_open_mem_handle(&b, shared.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  const CUdeviceptr rw = import_vmm(fd, CU_MEM_ACCESS_FLAGS_PROT_READWRITE);
  const CUdeviceptr ro = import_vmm(fd, CU_MEM_ACCESS_FLAGS_PROT_READ);
  const unsigned long long sums[] = {a == b, sum(a, kSize), sum(rw, kSize), sum(ro, kSize)};
  MUST(cu().ipc_close_mem_handle(a));
  MUST(cu().ipc_close_mem_handle(b));
  unmap(rw);
  unmap(ro);
  link.send(sums);
}

// Looks beside the 64 KiB it was given.
void role_look_beside(const Link& link) {
  Shared shared;
  link.receive(shared);
  CUdeviceptr p = 0, out = 0;
  MUST(cu().ipc_open_mem_handle(&p, shared.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  MUST(cu().mem_alloc(&out, 8));
  MUST(cu().memset_d8_async(out, 0, 8, nullptr));
  // The neighbour lies in the same 2 MiB; how far, the parent knows.
  unsigned long long n = 0;
  link.receive(n);
  unsigned long long pattern = 0x5ec2e75ec2e75ec2ull;
  void* params[] = {&p, &n, &pattern, &out};
  MUST(device->launch("scan", params));
  unsigned long long hits = 0;
  MUST(to_host(&hits, out, 8));
  link.send(hits);
  std::vector<char> bytes(n);
  const int copied = to_host(bytes.data(), p, n);
  link.send(copied);
  cu().mem_free(out);
  cu().ipc_close_mem_handle(p);
}

// Shares memory and an event, enqueues a delay, a fill and the record, and waits to be killed.
void role_producer(const Link& link) {
  CUdeviceptr p;
  MUST(cu().mem_alloc(&p, kSize));
  MUST(fill(p, kSize, 1));
  Vmm v = make_vmm();
  MUST(fill(v.pointer, kSize, 1));
  MUST(synchronise());
  CUevent event;
  MUST(cu().event_create(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
  Shared shared;
  MUST(cu().ipc_get_mem_handle(&shared.memory, p));
  MUST(cu().ipc_get_event_handle(&shared.event, event));
  link.send(shared, v.fd);
  unsigned long long ns;
  int page_fd = -1;
  link.receive(ns, &page_fd);
  const Page page = open_page(page_fd);
  CUstream stream;
  MUST(cu().stream_create(&stream, CU_STREAM_NON_BLOCKING));
  MUST(delay(ns, stream));
  MUST(fill(p, kSize, 2, stream));
  MUST(cu().event_record(event, stream));
  MUST(cu().stream_write_value_64(stream, page.address, 1, 0));
  link.send(0);
  int end;
  link.receive(end);
  MUST(cu().stream_synchronize(stream));
  link.send(0);
  link.receive(end);
  // The importer still maps it.
  MUST(cu().mem_free(p));
  MUST(cu().mem_alloc(&p, kSize));
  MUST(fill(p, kSize, 3));
  MUST(synchronise());
  link.send(0);
  link.receive(end);
  _exit(0);
}

// Reads without end until it is killed.
void role_reader(const Link& link) {
  Shared shared;
  link.receive(shared);
  CUdeviceptr p = 0;
  MUST(cu().ipc_open_mem_handle(&p, shared.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
  link.send(0);
  for (;;)
    sum(p, kSize);
}

const std::map<std::string, void (*)(const Link&)> kRoles = {
    {"open-all", role_open_all},
    {"write-read-only", role_write_read_only},
    {"map-everything", role_map_everything},
    {"look-beside", role_look_beside},
    {"producer", role_producer},
    {"reader", role_reader}};

// What a peer does to itself before its cuInit. False: not permitted here.
bool isolate(const std::string& how) {
  if (how.empty())
    return true;
  if (how == "user")
    return setgid(65534) == 0 && setuid(65534) == 0;
  const std::map<std::string, int> flags = {{"ipc", CLONE_NEWIPC},
                                            {"net", CLONE_NEWNET},
                                            {"shm", CLONE_NEWNS},
                                            {"all", CLONE_NEWIPC | CLONE_NEWNS | CLONE_NEWPID}};
  const int what = flags.at(how);
  if (unshare(what) != 0)
    return false;
  if (what & CLONE_NEWPID) {
    // The new PID namespace begins with the next child.
    const pid_t child = fork();
    if (child != 0) {
      int status = 0;
      waitpid(child, &status, 0);
      _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128);
    }
  }
  if (what & CLONE_NEWNS) {
    if (mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("tmpfs", "/dev/shm", "tmpfs", 0, nullptr) != 0)
      return false;
    if ((what & CLONE_NEWPID) && mount("proc", "/proc", "proc", 0, nullptr) != 0)
      return false;
  }
  return true;
}

constexpr int kNotPermitted = 77;

int peer(const char* role, int fd, const char* isolation) {
  if (!isolate(isolation))
    return kNotPermitted;
  device = new Device;
  {
    const Link link(fd);
    kRoles.at(role)(link);
  }
  delete device;
  return 0;
}

// --- Accepted and refused

TEST(Accepted, LegacyHandleOfOrdinaryMemoryOnly) {
  CUipcMemHandle handle;
  CUdeviceptr p;
  CHECK_CU(cu().mem_alloc(&p, kSize));
  EXPECT_EQ(cu().ipc_get_mem_handle(&handle, p), CUDA_SUCCESS);
  CUdeviceptr again;
  EXPECT_EQ(cu().ipc_open_mem_handle(&again, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
            CUDA_ERROR_INVALID_CONTEXT);
  CHECK_CU(cu().mem_free(p));
  CHECK_CU((symbol<CUresult (*)(CUdeviceptr*, size_t, unsigned)>("cuMemAllocManaged")(
      &p, kSize, CU_MEM_ATTACH_GLOBAL)));
  EXPECT_EQ(cu().ipc_get_mem_handle(&handle, p), CUDA_ERROR_INVALID_VALUE);
  CHECK_CU(cu().mem_free(p));
  CHECK_CU((
      symbol<CUresult (*)(CUdeviceptr*, size_t, CUstream)>("cuMemAllocAsync")(&p, kSize, nullptr)));
  EXPECT_EQ(cu().ipc_get_mem_handle(&handle, p), CUDA_ERROR_INVALID_VALUE);
  CHECK_CU(cu().mem_free(p));
  Vmm v = make_vmm();
  EXPECT_EQ(cu().ipc_get_mem_handle(&handle, v.pointer), CUDA_ERROR_INVALID_VALUE);
  free_vmm(v);
  // None of the refusals sticks.
  CHECK_CU(cu().mem_alloc(&p, kSize));
  CHECK_CU(fill(p, kSize, 1));
  CHECK_CU(synchronise());
  CHECK_CU(cu().mem_free(p));
}

TEST(Accepted, OwnEventHandleIsRefused) {
  CUevent event, again;
  CUipcEventHandle handle;
  CHECK_CU(cu().event_create(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
  CHECK_CU(cu().ipc_get_event_handle(&handle, event));
  EXPECT_EQ(cu().ipc_open_event_handle(&again, handle), CUDA_ERROR_INVALID_CONTEXT);
  CHECK_CU(cu().event_destroy(event));
}

TEST(Accepted, VmmInTheExportingProcess) {
  Vmm v = make_vmm();
  CHECK_CU(fill(v.pointer, kSize, 5));
  const CUdeviceptr again = import_vmm(v.fd, CU_MEM_ACCESS_FLAGS_PROT_READ);
  EXPECT_NE(again, v.pointer);
  EXPECT_EQ(sum(again, kSize), 5ull * kSize);
  unmap(again);
  CUmemGenericAllocationHandle retained;
  CHECK_CU((symbol<CUresult (*)(CUmemGenericAllocationHandle*, void*)>(
      "cuMemRetainAllocationHandle")(&retained, reinterpret_cast<void*>(v.pointer))));
  CHECK_CU(cu().mem_release(retained));
  const CUmemAllocationProp p = properties();
  size_t granularity = 0;
  CHECK_CU(cu().mem_get_allocation_granularity(&granularity, &p, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  EXPECT_EQ(granularity, 2u * 1024 * 1024);
  free_vmm(v);
}

// Memory of ours of both kinds, filled with 7 and 9.
struct Exported {
  CUdeviceptr legacy = 0;
  Vmm vmm;
  CUevent event = nullptr;
  Shared shared;
  Exported() {
    MUST(cu().mem_alloc(&legacy, kSize));
    MUST(fill(legacy, kSize, 7));
    vmm = make_vmm();
    MUST(fill(vmm.pointer, kSize, 9));
    MUST(synchronise());
    MUST(cu().event_create(&event, CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS));
    MUST(cu().ipc_get_mem_handle(&shared.memory, legacy));
    MUST(cu().ipc_get_event_handle(&shared.event, event));
  }
  ~Exported() {
    free_vmm(vmm);
    cu().event_destroy(event);
    cu().mem_free(legacy);
  }
};

TEST(Accepted, OneHandleTwiceAndEveryMappingReadsTheSame) {
  Exported exported;
  Peer other("map-everything");
  other.link().send(exported.shared, exported.vmm.fd);
  unsigned long long sums[4] = {};
  ASSERT_TRUE(other.link().receive(sums));
  EXPECT_EQ(sums[0], 1u);
  EXPECT_EQ(sums[1], 7ull * kSize);
  EXPECT_EQ(sums[2], 9ull * kSize);
  EXPECT_EQ(sums[3], 9ull * kSize);
  EXPECT_EQ(other.wait(), 0);
}

TEST(Accepted, AReadOnlyMappingIsEnforcedInTheImporterOnly) {
  Exported exported;
  Peer other("write-read-only");
  other.link().send(0, exported.vmm.fd);
  int read = 0, wrote = 0;
  ASSERT_TRUE(other.link().receive(read));
  ASSERT_TRUE(other.link().receive(wrote));
  EXPECT_TRUE(read);
  EXPECT_EQ(wrote, CUDA_ERROR_ILLEGAL_ADDRESS);
  other.wait();
  EXPECT_EQ(sum(exported.vmm.pointer, kSize), 9ull * kSize);
  EXPECT_EQ(poke(exported.vmm.pointer, 1), CUDA_SUCCESS);
}

TEST(Accepted, NeighboursInA2MiBBlockLeakToKernels) {
  CUdeviceptr first, second;
  CHECK_CU(cu().mem_alloc(&first, 65536));
  CHECK_CU(cu().mem_alloc(&second, 65536));
  const unsigned long long distance = second > first ? second - first : 0;
  if (distance == 0 || distance > 2 * 1024 * 1024 - 65536 ||
      first / (2 << 20) != (second + 65535) / (2 << 20)) {
    cu().mem_free(first);
    cu().mem_free(second);
    GTEST_SKIP() << "this driver put the two into different blocks";
  }
  const std::vector<unsigned long long> secret(65536 / 8, 0x5ec2e75ec2e75ec2ull);
  CHECK_CU((symbol<CUresult (*)(CUdeviceptr, const void*, size_t)>("cuMemcpyHtoD_v2")(
      second, secret.data(), 65536)));
  Shared shared;
  CHECK_CU(cu().ipc_get_mem_handle(&shared.memory, first));
  Peer other("look-beside");
  other.link().send(shared);
  other.link().send(distance + 65536);
  unsigned long long hits = 0;
  int copied = 0;
  ASSERT_TRUE(other.link().receive(hits));
  EXPECT_GT(hits, 0u);
  ASSERT_TRUE(other.link().receive(copied));
  EXPECT_NE(copied, CUDA_SUCCESS);
  EXPECT_EQ(other.wait(), 0);
  CHECK_CU(cu().mem_free(first));
  CHECK_CU(cu().mem_free(second));
}

// --- Across users and containers

class Across : public testing::TestWithParam<const char*> {};

TEST_P(Across, MemoryAndSemaphoresPassEventsOnlyWithTheSameUserAndShm) {
  const std::string how = GetParam();
  Exported exported;
  const Page page = make_page();
  Peer other("open-all", how);
  other.link().send(exported.shared, exported.vmm.fd);
  other.link().send(0, page.fd);
  Answers answers{};
  if (!other.link().receive(answers)) {
    const int status = other.wait();
    close_page(page);
    if (status == kNotPermitted)
      GTEST_SKIP() << how << ": not permitted here";
    FAIL() << "the peer ended with " << status;
  }
  EXPECT_EQ(answers.legacy, CUDA_SUCCESS);
  EXPECT_EQ(answers.vmm, CUDA_SUCCESS);
  const bool apart = how == "user" || how == "shm" || how == "all";
  EXPECT_EQ(answers.event, apart ? CUDA_ERROR_MAP_FAILED : CUDA_SUCCESS);
  // Its stream waits for us, ours for it.
  CUstream stream;
  CHECK_CU(cu().stream_create(&stream, CU_STREAM_NON_BLOCKING));
  CHECK_CU(cu().stream_write_value_64(stream, page.address, 1, 0));
  EXPECT_TRUE(word_reaches(page.words[1], 2));
  ASSERT_TRUE(other.link().receive(answers));
  EXPECT_EQ(answers.semaphore, CUDA_SUCCESS);
  EXPECT_EQ(other.wait(), 0);
  CHECK_CU(cu().stream_synchronize(stream));
  CHECK_CU(cu().stream_destroy(stream));
  close_page(page);
}

INSTANTIATE_TEST_SUITE_P(Peers, Across, testing::Values("", "ipc", "net", "user", "shm", "all"));

// --- Who survives whom

struct Imported {
  Peer producer{"producer"};
  Shared shared{};
  int fd = -1;
  CUdeviceptr legacy = 0, vmm = 0;
  CUevent event = nullptr;
  Page page = make_page();
  explicit Imported(unsigned long long delay_ns) {
    if (!producer.link().receive(shared, &fd))
      abort();
    MUST(cu().ipc_open_mem_handle(&legacy, shared.memory, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    MUST(cu().ipc_open_event_handle(&event, shared.event));
    vmm = import_vmm(fd, CU_MEM_ACCESS_FLAGS_PROT_READ);
    producer.link().send(delay_ns, page.fd);
    int enqueued;
    if (!producer.link().receive(enqueued))
      abort();
  }
  ~Imported() {
    cu().event_destroy(event);
    unmap(vmm);
    close(fd);
    cu().ipc_close_mem_handle(legacy);
    close_page(page);
  }
};

TEST(Survives, WithoutAWaitTheReaderSeesTheOldFrame) {
  Imported imported(200'000'000);
  EXPECT_EQ(sum(imported.legacy, kSize), 1ull * kSize);
  EXPECT_EQ(cu().event_query(imported.event), CUDA_ERROR_NOT_READY);
  EXPECT_EQ(imported.page.words[0], 0u);
  EXPECT_TRUE(word_reaches(imported.page.words[0], 1));
  while (cu().event_query(imported.event) == CUDA_ERROR_NOT_READY)
    usleep(500);
  EXPECT_EQ(sum(imported.legacy, kSize), 2ull * kSize);
}

TEST(Survives, AKilledProducersEventIsNeverDoneAndItsMemoryStays) {
  Imported imported(5'000'000'000);
  CUstream stream;
  CHECK_CU(cu().stream_create(&stream, CU_STREAM_NON_BLOCKING));
  CHECK_CU(cu().stream_wait_value_64(stream, imported.page.address, 1, CU_STREAM_WAIT_VALUE_GEQ));
  imported.producer.kill();
  EXPECT_EQ(cu().event_query(imported.event), CUDA_ERROR_NOT_READY);
  usleep(1'000'000);
  EXPECT_EQ(cu().event_query(imported.event), CUDA_ERROR_NOT_READY);
  // A stream that waits for its semaphore is released by the survivor's CPU.
  __atomic_store_n(imported.page.words, 1, __ATOMIC_RELEASE);
  CHECK_CU(cu().stream_synchronize(stream));
  CHECK_CU(cu().stream_destroy(stream));
  EXPECT_EQ(sum(imported.legacy, kSize), 1ull * kSize);
  EXPECT_EQ(sum(imported.vmm, kSize), 1ull * kSize);
}

TEST(Survives, MemoryThatTheExporterFreesIsStillThere) {
  Imported imported(0);
  int answer;
  imported.producer.link().send(0);
  ASSERT_TRUE(imported.producer.link().receive(answer));
  EXPECT_EQ(sum(imported.legacy, kSize), 2ull * kSize);
  imported.producer.link().send(0);
  ASSERT_TRUE(imported.producer.link().receive(answer));
  EXPECT_EQ(sum(imported.legacy, kSize), 2ull * kSize);
}

TEST(Survives, AConsumerKilledWhileItReadsHurtsNobody) {
  Exported exported;
  Peer reader("reader");
  reader.link().send(exported.shared);
  int opened;
  ASSERT_TRUE(reader.link().receive(opened));
  usleep(100'000);
  reader.kill();
  EXPECT_EQ(sum(exported.legacy, kSize), 7ull * kSize);
  EXPECT_EQ(poke(exported.legacy, 1), CUDA_SUCCESS);
}

}  // namespace
}  // namespace conformance

int main(int argc, char** argv) {
  if (argc > 4 && std::string(argv[1]) == "--peer")
    return conformance::peer(argv[2], atoi(argv[3]), argv[4]);
  testing::InitGoogleTest(&argc, argv);
  conformance::device = new conformance::Device;
  const int status = RUN_ALL_TESTS();
  delete conformance::device;
  return status;
}
