// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Benchmark of the conversion kernels: ours, a copy of the same bytes, NPP, and a plain kernel.
//
//   colour [--quick] [PAIR…]        a GPU is needed; without one exit status 77 (skipped)
//
// Device time per frame, from graphs of many launches, medians of rounds in which the contestants
// take turns (A B C C B A). Cold: the frames rotate over more than four times the L2 cache. Hot:
// one frame again and again. Single: graphs of one frame, with what a start costs. Beside each: the
// largest and the mean error against the exact
// conversion (tests/oracle), in codes; NPP and the plain kernel know no siting, which shows there.
#include <dlfcn.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "kernels/converter.h"
#include "tests/oracle/oracle.h"
#ifdef HAVE_NPP
#include <nppi_color_conversion.h>
#endif

extern "C" const unsigned char plain_kernels_image[];

namespace {

using namespace cudaipc;
using kernels::Picture;

// What the product does not need of the driver.
struct More {
// clang-format off
#define MORE(X) \
  X(cuDevicePrimaryCtxRetain) \
  X(cuStreamBeginCapture) \
  X(cuStreamEndCapture) \
  X(cuGraphInstantiateWithFlags) \
  X(cuGraphLaunch) \
  X(cuGraphDestroy) \
  X(cuGraphExecDestroy) \
  X(cuEventElapsedTime) \
  X(cuEventSynchronize) \
  X(cuMemcpyDtoDAsync) \
  X(cuMemcpyHtoD) \
  X(cuMemcpyDtoH) \
  X(cuMemsetD8)
// clang-format on
#define STRING_(x) #x
#define STRING(x) STRING_(x)
#define X(f) decltype(&::f) f##_ = reinterpret_cast<decltype(&::f)>(dlsym(library, STRING(f)));
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  MORE(X)
#undef X
};

void check(CUresult code, const char* what) {
  if (code == CUDA_SUCCESS)
    return;
  fprintf(stderr, "%s: CUDA error %d\n", what, code);
  exit(1);
}
#define CHECK(call) check(call, #call)

struct Gpu {
  More more;
  ContextPtr context;
  CUstream stream = nullptr;
  CUmodule plain = nullptr;
  std::shared_ptr<const kernels::Module> module;
  size_t l2 = 0;
  CUfunction function(const char* name) {
    CUfunction f;
    CHECK(cu().module_get_function(&f, plain, name));
    return f;
  }
};

struct Pair {
  const char* name;
  const char* from;
  const char* to;
};

constexpr Pair kPairs[] = {
    {"NV12-RGBA", "NV12", "RGBA"},
    {"RGBA-NV12", "RGBA", "NV12"},
    {"P010-RGBA", "P010_10LE", "RGBA"},
    {"I420-RGBP", "I420", "RGBP"},
    {"NV12-RGB", "NV12", "RGB"},
    {"NV12-RGBP", "NV12", "RGBP"},
    {"P010-RGB10A2", "P010_10LE", "RGB10A2_LE"},
    {"RGBA-P010", "RGBA", "P010_10LE"},
    {"NV12-I420", "NV12", "I420"},
};

struct Size {
  int width, height;
};

constexpr size_t kCopyAlign = 2 << 20;

// Planes one behind the other, as they lie at `base`.
struct Placed {
  const kernels::Format* format;
  Size size;
  int64_t stride[3] = {}, offset[3] = {};
  int64_t bytes = 0;
};

Placed place(const char* name, Size size) {
  Placed p{kernels::find_format(name), size};
  for (int k = 0; k < p.format->planes; ++k) {
    p.stride[k] = p.format->row_bytes(k, size.width);
    p.stride[k] = (p.stride[k] + 255) / 256 * 256;
    p.offset[k] = p.bytes;
    p.bytes += p.stride[k] * p.format->rows(k, size.height);
  }
  return p;
}

kernels::Frame frame_at(const Placed& p, CUdeviceptr base) {
  kernels::Frame f;
  for (int k = 0; k < p.format->planes; ++k) {
    f.plane[k] = base + static_cast<CUdeviceptr>(p.offset[k]);
    f.stride[k] = p.stride[k];
  }
  return f;
}

oracle::Picture picture_of(const Placed& p, const uint8_t* bytes) {
  oracle::Picture o{p.format->name, p.size.width, p.size.height, {}, {}, {}};
  o.colour = p.format->rgb ? oracle::Colour{oracle::Matrix::Rgb, true, {}}
                           : oracle::Colour{oracle::Matrix::Bt709, false, {true, false, false}};
  for (int k = 0; k < p.format->planes; ++k) {
    o.plane[k] = bytes + p.offset[k];
    o.stride[k] = p.stride[k];
  }
  return o;
}

Picture product_picture(const Placed& p) {
  Picture o;
  o.format = p.format;
  o.width = p.size.width, o.height = p.size.height;
  if (!p.format->rgb)
    o.colour = {kernels::Matrix::Bt709, kernels::Range::Limited};
  o.siting.x = kernels::Phase::Even;
  return o;
}

struct Contestant {
  std::string name;
  bool converts = true;
  std::function<void(CUdeviceptr base)> enqueue;  // base: source, destination behind it
  std::vector<double> cold, hot, single;          // us a frame
  double max_error = 0, mean_error = 0;
};

double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v.empty() ? 0 : v[v.size() / 2];
}

struct Graph {
  CUgraphExec exec = nullptr;
  int launches = 0;
};

Graph record(Gpu& gpu, const Contestant& c, const std::vector<CUdeviceptr>& sets, int launches) {
  CHECK(gpu.more.cuStreamBeginCapture_(gpu.stream, CU_STREAM_CAPTURE_MODE_RELAXED));
  for (int i = 0; i < launches; ++i)
    c.enqueue(sets[static_cast<size_t>(i) % sets.size()]);
  CUgraph graph;
  CHECK(gpu.more.cuStreamEndCapture_(gpu.stream, &graph));
  Graph g{nullptr, launches};
  CHECK(gpu.more.cuGraphInstantiateWithFlags_(&g.exec, graph, 0));
  CHECK(gpu.more.cuGraphDestroy_(graph));
  return g;
}

double time_of(Gpu& gpu, const Graph& graph, CUevent a, CUevent b) {
  CHECK(cu().event_record(a, gpu.stream));
  CHECK(gpu.more.cuGraphLaunch_(graph.exec, gpu.stream));
  CHECK(cu().event_record(b, gpu.stream));
  CHECK(gpu.more.cuEventSynchronize_(b));
  float ms = 0;
  CHECK(gpu.more.cuEventElapsedTime_(&ms, a, b));
  return ms * 1000.0 / graph.launches;
}

// `most` launches a graph, rounded to whole rotations over the frames.
void race(Gpu& gpu, std::vector<Contestant>& all, const std::vector<CUdeviceptr>& sets, int most,
          int rounds, std::vector<double> Contestant::*result) {
  std::vector<Graph> graphs;
  const int per = static_cast<int>(sets.size());
  const int launches = std::max(1, most / per) * per;
  for (const Contestant& c : all)
    graphs.push_back(record(gpu, c, sets, launches));
  CUevent a, b;
  CHECK(cu().event_create(&a, CU_EVENT_DEFAULT));
  CHECK(cu().event_create(&b, CU_EVENT_DEFAULT));
  for (const Graph& g : graphs)
    time_of(gpu, g, a, b);
  for (int r = 0; r < rounds; ++r) {
    for (size_t i = 0; i < all.size(); ++i)
      (all[i].*result).push_back(time_of(gpu, graphs[i], a, b));
    for (size_t i = all.size(); i-- > 0;)
      (all[i].*result).push_back(time_of(gpu, graphs[i], a, b));
  }
  for (const Graph& g : graphs)
    gpu.more.cuGraphExecDestroy_(g.exec);
  cu().event_destroy(a);
  cu().event_destroy(b);
}

struct PlainMatrix {
  float m[3][4];
};

PlainMatrix plain_matrix(const Placed& from, const Placed& to) {
  const Picture a = product_picture(from), b = product_picture(to);
  const kernels::Affine map =
      kernels::conversion(a.colour, from.format->bits, b.colour, to.format->bits);
  PlainMatrix m;
  for (int i = 0; i < 3; ++i) {
    double constant = map.offset[i];
    for (int j = 0; j < 3; ++j) {
      m.m[i][j] = static_cast<float>(map.m[i][j]);
      constant -= map.m[i][j] * map.centre[j];
    }
    m.m[i][3] = static_cast<float>(constant);
  }
  return m;
}

void launch2x2(Gpu& gpu, CUfunction f, Size size, void** arguments) {
  CHECK(cu().launch_kernel(f, static_cast<unsigned>((size.width / 2 + 31) / 32),
                           static_cast<unsigned>((size.height / 2 + 1) / 2), 1, 32, 2, 1, 0,
                           gpu.stream, arguments, nullptr));
}

// The plain kernel of the pair, if there is one.
std::function<void(CUdeviceptr)> plain(Gpu& gpu, const std::string& pair, const Placed& from,
                                       const Placed& to) {
  const PlainMatrix m = plain_matrix(from, to);
  const Size size = from.size;
  const auto simple = [&gpu, from, to, m, size](CUfunction f) {
    return [&gpu, from, to, m, size, f](CUdeviceptr base) {
      CUdeviceptr luma = base, chroma = base + static_cast<CUdeviceptr>(from.offset[1]);
      CUdeviceptr out = base + static_cast<CUdeviceptr>(from.bytes);
      unsigned pitch = static_cast<unsigned>(from.stride[0]);
      unsigned out_pitch = static_cast<unsigned>(to.stride[0]);
      int w = size.width, h = size.height;
      PlainMatrix copy = m;
      void* arguments[] = {&luma, &chroma, &pitch, &out, &out_pitch, &w, &h, &copy};
      launch2x2(gpu, f, size, arguments);
    };
  };
  if (pair == "NV12-RGBA")
    return simple(gpu.function("plain_nv12_rgba"));
  if (pair == "NV12-RGB")
    return simple(gpu.function("plain_nv12_rgb"));
  if (pair == "P010-RGBA")
    return simple(gpu.function("plain_p010_rgba"));
  if (pair == "I420-RGBP")
    return [&gpu, from, to, m, size, f = gpu.function("plain_i420_rgbp")](CUdeviceptr base) {
      CUdeviceptr luma = base, u = base + static_cast<CUdeviceptr>(from.offset[1]),
                  v = base + static_cast<CUdeviceptr>(from.offset[2]);
      CUdeviceptr out = base + static_cast<CUdeviceptr>(from.bytes);
      unsigned pitch = static_cast<unsigned>(from.stride[0]);
      unsigned chroma_pitch = static_cast<unsigned>(from.stride[1]);
      unsigned out_pitch = static_cast<unsigned>(to.stride[0]);
      unsigned plane = static_cast<unsigned>(to.offset[1]);
      int w = size.width, h = size.height;
      PlainMatrix copy = m;
      void* arguments[] = {&luma,      &u,     &v, &pitch, &chroma_pitch, &out,
                           &out_pitch, &plane, &w, &h,     &copy};
      launch2x2(gpu, f, size, arguments);
    };
  if (pair == "RGBA-NV12")
    return [&gpu, from, to, m, size, f = gpu.function("plain_rgba_nv12")](CUdeviceptr base) {
      CUdeviceptr luma = base + static_cast<CUdeviceptr>(from.bytes);
      CUdeviceptr chroma = luma + static_cast<CUdeviceptr>(to.offset[1]);
      unsigned in_pitch = static_cast<unsigned>(from.stride[0]);
      unsigned pitch = static_cast<unsigned>(to.stride[0]);
      int w = size.width, h = size.height;
      PlainMatrix copy = m;
      void* arguments[] = {&base, &in_pitch, &luma, &chroma, &pitch, &w, &h, &copy};
      launch2x2(gpu, f, size, arguments);
    };
  return {};
}

#ifdef HAVE_NPP
NppStreamContext npp_context(Gpu& gpu) {
  NppStreamContext c{};
  c.hStream = reinterpret_cast<cudaStream_t>(gpu.stream);
  const auto attribute = [&](CUdevice_attribute a) {
    int v = 0;
    CHECK(cu().device_get_attribute(&v, a, gpu.context->device));
    return v;
  };
  c.nCudaDeviceId = 0;
  c.nMultiProcessorCount = attribute(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT);
  c.nMaxThreadsPerMultiProcessor = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  c.nMaxThreadsPerBlock = attribute(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  c.nSharedMemPerBlock =
      static_cast<size_t>(attribute(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK));
  c.nCudaDevAttrComputeCapabilityMajor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  c.nCudaDevAttrComputeCapabilityMinor = attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  return c;
}

// What NPP has for the pair, by name; several where there are several.
std::vector<Contestant> npp(Gpu& gpu, const std::string& pair, const Placed& from,
                            const Placed& to) {
  std::vector<Contestant> all;
  const NppStreamContext context = npp_context(gpu);
  const NppiSize roi{from.size.width, from.size.height};
  const auto add = [&](const char* name, auto call) {
    Contestant c;
    c.name = name;
    c.enqueue = [=](CUdeviceptr base) {
      const auto* in = reinterpret_cast<const Npp8u*>(base);
      auto* out = reinterpret_cast<Npp8u*>(base + static_cast<CUdeviceptr>(from.bytes));
      if (const NppStatus status = call(in, out); status != NPP_SUCCESS) {
        fprintf(stderr, "NPP: status %d\n", status);
        exit(1);
      }
    };
    all.push_back(std::move(c));
  };
  const PlainMatrix matrix = plain_matrix(from, to);
  if (pair == "NV12-RGB") {
    add("NPP 709CSC", [=](const Npp8u* in, Npp8u* out) {
      const Npp8u* planes[] = {in, in + from.offset[1]};
      return nppiNV12ToRGB_709CSC_8u_P2C3R_Ctx(planes, static_cast<int>(from.stride[0]), out,
                                               static_cast<int>(to.stride[0]), roi, context);
    });
  }
  if (pair == "NV12-RGB" || pair == "NV12-RGBA") {
    const bool four = pair == "NV12-RGBA";
    if (!four)
      add("NPP ColorTwist", [=](const Npp8u* in, Npp8u* out) {
        const Npp8u* planes[] = {in, in + from.offset[1]};
        int steps[] = {static_cast<int>(from.stride[0]), static_cast<int>(from.stride[1])};
        return nppiNV12ToRGB_8u_ColorTwist32f_P2C3R_Ctx(
            planes, steps, out, static_cast<int>(to.stride[0]), roi, matrix.m, context);
      });
  }
  return all;
}
#endif

void run(Gpu& gpu, const Pair& pair, Size size, bool quick) {
  const Placed from = place(pair.from, size), to = place(pair.to, size);
  size_t traffic = 0;  // bytes of picture, without padding
  for (const Placed* p : {&from, &to}) {
    for (int k = 0; k < p->format->planes; ++k)
      traffic += static_cast<size_t>(p->format->row_bytes(k, size.width) *
                                     p->format->rows(k, size.height));
  }
  const size_t bytes = static_cast<size_t>(from.bytes + to.bytes) + kCopyAlign;
  const size_t count = std::max<size_t>(2, (4 * gpu.l2 + bytes - 1) / bytes + 1);
  std::vector<CUdeviceptr> sets(count);
  std::vector<uint8_t> random(static_cast<size_t>(from.bytes));
  std::mt19937 generator(1);
  for (size_t i = 0; i + 4 <= random.size(); i += 4) {
    const uint32_t v = static_cast<uint32_t>(generator());
    memcpy(&random[i], &v, 4);
  }
  if (from.format->storage == kernels::Storage::SemiPlanar16) {
    auto* words = reinterpret_cast<uint16_t*>(random.data());
    for (size_t i = 0; i < random.size() / 2; ++i)
      words[i] = static_cast<uint16_t>(words[i] >> from.format->shift << from.format->shift);
  }
  for (CUdeviceptr& set : sets) {
    CHECK(cu().mem_alloc(&set, bytes));
    CHECK(gpu.more.cuMemcpyHtoD_(set, random.data(), random.size()));
  }
  auto converter =
      kernels::Converter::create(gpu.module, product_picture(from), product_picture(to));
  if (!converter) {
    fprintf(stderr, "%s\n", converter.error().message.c_str());
    exit(1);
  }
  std::vector<Contestant> all;
  const auto add = [&all](const char* name, bool converts, std::function<void(CUdeviceptr)> call) {
    Contestant c;
    c.name = name;
    c.converts = converts;
    c.enqueue = std::move(call);
    all.push_back(std::move(c));
  };
  add("ours", true, [&](CUdeviceptr base) {
    const CUdeviceptr out = base + static_cast<CUdeviceptr>(from.bytes);
    if (auto done = converter->convert(frame_at(from, base), frame_at(to, out), gpu.stream);
        !done) {
      fprintf(stderr, "%s\n", done.error().message.c_str());
      exit(1);
    }
  });
  // As many bytes read and written as the conversion reads and writes, between addresses that suit
  // the copy best.
  const size_t half = (traffic + 1) / 2;
  const size_t second = (half + kCopyAlign - 1) / kCopyAlign * kCopyAlign;
  add("copy", false, [&gpu, half, second](CUdeviceptr base) {
    CHECK(gpu.more.cuMemcpyDtoDAsync_(base + second, base, half, gpu.stream));
  });
  if (auto f = plain(gpu, pair.name, from, to))
    add("plain 2x2", true, f);
#ifdef HAVE_NPP
  for (Contestant& c : npp(gpu, pair.name, from, to))
    all.push_back(std::move(c));
#endif

  // Accuracy first: the copy then overwrites what it likes.
  if (size.width <= 1920) {
    std::vector<uint8_t> out(static_cast<size_t>(to.bytes));
    const oracle::Components want =
        oracle::convert(picture_of(from, random.data()), {0, 0, size.width, size.height}, pair.to,
                        picture_of(to, out.data()).colour);
    for (Contestant& c : all) {
      if (!c.converts)
        continue;
      CHECK(gpu.more.cuMemsetD8_(sets[0] + static_cast<CUdeviceptr>(from.bytes), 0xa5, out.size()));
      c.enqueue(sets[0]);
      CHECK(cu().ctx_synchronize());
      CHECK(gpu.more.cuMemcpyDtoH_(out.data(), sets[0] + static_cast<CUdeviceptr>(from.bytes),
                                   out.size()));
      const oracle::Verdict v =
          oracle::compare(oracle::read(picture_of(to, out.data())).components, want);
      c.max_error = v.max_error, c.mean_error = v.mean_error;
    }
  }
  const int rounds = quick ? 3 : 11;
  constexpr int kMany = 200;
  race(gpu, all, sets, kMany, rounds, &Contestant::cold);
  if (!quick) {
    race(gpu, all, {sets[0]}, kMany, rounds, &Contestant::hot);
    // One frame a graph, another one each time: what the others left in L2 is not it.
    for (const CUdeviceptr set : sets)
      race(gpu, all, {set}, 1, 1, &Contestant::single);
  }

  const double ours = median(all[0].cold), copy = median(all[1].cold);
  for (const Contestant& c : all) {
    const double t = median(c.cold);
    const auto [low, high] = std::minmax_element(c.cold.begin(), c.cold.end());
    printf("%-13s %4dx%-4d %-15s %8.2f us [%7.2f %7.2f] %6.0f GB/s %5.1f%% of copy  %5.2fx ours",
           pair.name, size.width, size.height, c.name.c_str(), t, *low, *high,
           static_cast<double>(traffic) / t / 1000, 100 * copy / t, t / ours);
    if (!c.hot.empty())
      printf("  hot %7.2f us  single %7.2f us", median(c.hot), median(c.single));
    if (c.converts && size.width <= 1920)
      printf("  error max %6.3f mean %+7.4f", c.max_error, c.mean_error);
    printf("\n");
  }
  fflush(stdout);
  for (CUdeviceptr set : sets)
    cu().mem_free(set);
}

}  // namespace

int main(int argc, char** argv) {
  bool quick = false;
  std::vector<std::string> wanted;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--quick")
      quick = true;
    else
      wanted.push_back(argv[i]);
  }
  auto driver = load_driver();
  if (!driver) {
    fprintf(stderr, "skipped: %s\n", driver.error().message.c_str());
    return 77;
  }
  Gpu gpu;
  // NPP works in the primary context.
  auto context = std::make_shared<Context>();
  CHECK(cu().device_get(&context->device, 0));
  if (!gpu.more.cuDevicePrimaryCtxRetain_ || !gpu.more.cuStreamBeginCapture_) {
    fprintf(stderr, "skipped: no graphs in this driver\n");
    return 77;
  }
  CHECK(gpu.more.cuDevicePrimaryCtxRetain_(&context->handle, context->device));
  gpu.context = context;
  const ScopedContext scoped(*gpu.context);
  CHECK(cu().stream_create(&gpu.stream, CU_STREAM_NON_BLOCKING));
  int l2 = 0;
  CHECK(cu().device_get_attribute(&l2, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, context->device));
  gpu.l2 = static_cast<size_t>(l2);
  CHECK(cu().module_load_data(&gpu.plain, plain_kernels_image));
  auto module = kernels::Module::load(gpu.context);
  if (!module) {
    fprintf(stderr, "%s\n", module.error().message.c_str());
    return 1;
  }
  gpu.module = *module;
  const std::vector<Size> sizes =
      quick ? std::vector<Size>{{1920, 1080}, {3840, 2160}, {7680, 4320}}
            : std::vector<Size>{{1280, 720}, {1920, 1080}, {3840, 2160}, {7680, 4320}};
  for (const Pair& pair : kPairs) {
    if (!wanted.empty() && std::find(wanted.begin(), wanted.end(), pair.name) == wanted.end())
      continue;
    for (const Size size : sizes)
      run(gpu, pair, size, quick);
  }
  return 0;
}
