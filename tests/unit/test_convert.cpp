// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// cudacolorconvert through GstHarness: negotiation, memory on both sides, what is refused; pixels
// by the oracle.
#include <dlfcn.h>
#include <gst/check/gstharness.h>
#include <gst/cuda/gstcudaloader.h>
#include <gst/cuda/gstcudamemory.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>

#include <memory>
#include <random>

#include "gst/colorimetry.h"
#include "gst/elements.h"
#include "gst/frame_converter.h"
#include "gst/layout.h"
#include "gst/local_pool.h"
#include "tests/oracle/oracle.h"
#include "tests/unit/support.h"

namespace cudaipc::test {
namespace {

constexpr char kCuda[] = "video/x-raw(memory:CUDAMemory)";
constexpr char kSystem[] = "video/x-raw";

struct HarnessFree {
  void operator()(GstHarness* h) const { gst_harness_teardown(h); }
};

uint64_t calls(const char* function) {
  static void* const device = dlopen("libcuda.so.1", RTLD_NOW);
  static const auto count =
      reinterpret_cast<uint64_t (*)(const char*)>(dlsym(device, "softcuda_calls"));
  return count(function);
}

struct CapsUnref {
  void operator()(GstCaps* c) const { gst_caps_unref(c); }
};
using Caps = std::unique_ptr<GstCaps, CapsUnref>;

Caps caps_of(const std::string& text) {
  return Caps(gst_caps_from_string(text.c_str()));
}

std::string video(const char* memory, const char* format, int width, int height,
                  const std::string& more = "") {
  return std::string(memory) + ",format=" + format + ",width=" + std::to_string(width) +
         ",height=" + std::to_string(height) + ",framerate=30/1" + more;
}

class Convert {
 public:
  explicit Convert(const std::string& options = "") {
    GstElement* element = gst_parse_launch(("cudacolorconvert " + options).c_str(), nullptr);
    h_.reset(gst_harness_new_with_element(element, "sink", "src"));
    gst_object_unref(element);
    bus_ = gst_bus_new();
    gst_element_set_bus(h_->element, bus_);
  }
  ~Convert() {
    gst_element_set_bus(h_->element, nullptr);
    gst_object_unref(bus_);
  }

  bool negotiate(const std::string& in, const std::string& out) {
    gst_harness_set_caps_str(h_.get(), in.c_str(), out.c_str());
    return output() != nullptr;
  }
  // The caps that came out, if any.
  Caps output() { return Caps(gst_pad_get_current_caps(h_->sinkpad)); }
  std::string output_field(const char* field) {
    Caps caps = output();
    const char* text =
        caps ? gst_structure_get_string(gst_caps_get_structure(caps.get(), 0), field) : nullptr;
    return text ? text : "";
  }
  GstBuffer* convert(GstBuffer* buffer) { return gst_harness_push_and_pull(h_.get(), buffer); }
  GstFlowReturn push(GstBuffer* buffer) { return gst_harness_push(h_.get(), buffer); }
  std::string message(GstMessageType type) {
    GstMessage* m = gst_bus_pop_filtered(bus_, type);
    if (!m)
      return {};
    GError* error = nullptr;
    if (type == GST_MESSAGE_ERROR)
      gst_message_parse_error(m, &error, nullptr);
    else
      gst_message_parse_warning(m, &error, nullptr);
    std::string text = error->message;
    g_error_free(error);
    gst_message_unref(m);
    return text;
  }
  guint64 stat(const char* name) {
    GstStructure* s = nullptr;
    g_object_get(h_->element, "stats", &s, nullptr);
    guint64 value = 0;
    EXPECT_TRUE(gst_structure_get_uint64(s, name, &value)) << name;
    gst_structure_free(s);
    return value;
  }
  GstCudaContext* context() {
    GstQuery* query = gst_query_new_context(GST_CUDA_CONTEXT_TYPE);
    GstCudaContext* found = nullptr;
    if (gst_pad_peer_query(h_->srcpad, query)) {
      GstContext* context = nullptr;
      gst_query_parse_context(query, &context);
      const GstStructure* fields = gst_context_get_structure(context);
      for (gint i = 0; i < gst_structure_n_fields(fields) && !found; ++i)
        gst_structure_get(fields, gst_structure_nth_field_name(fields, static_cast<guint>(i)),
                          GST_TYPE_CUDA_CONTEXT, &found, nullptr);
    }
    gst_query_unref(query);
    return found;
  }
  GstHarness* harness() { return h_.get(); }

 private:
  std::unique_ptr<GstHarness, HarnessFree> h_;
  GstBus* bus_;
};

VideoPicture picture_of(const Caps& caps) {
  auto p = picture_from_caps(caps.get());
  EXPECT_TRUE(p) << (p ? "" : p.error().message);
  return *p;
}

void noise(guint8* data, size_t size, unsigned seed) {
  std::mt19937 generator(seed);
  for (size_t i = 0; i < size; ++i)
    data[i] = static_cast<guint8>(generator() >> 24);
}

GstBuffer* system_noise(const VideoPicture& p, unsigned seed) {
  GstBuffer* buffer = gst_buffer_new_allocate(nullptr, GST_VIDEO_INFO_SIZE(&p.info), nullptr);
  GstMapInfo map;
  gst_buffer_map(buffer, &map, GST_MAP_WRITE);
  noise(map.data, map.size, seed);
  gst_buffer_unmap(buffer, &map);
  return buffer;
}

// A frame of GPU memory filled through a CPU map.
GstBuffer* cuda_noise(GstBufferPool* pool, unsigned seed) {
  GstBuffer* buffer = nullptr;
  EXPECT_EQ(gst_buffer_pool_acquire_buffer(pool, &buffer, nullptr), GST_FLOW_OK);
  GstMapInfo map;
  EXPECT_TRUE(gst_buffer_map(buffer, &map, GST_MAP_WRITE));
  noise(map.data, map.size, seed);
  gst_buffer_unmap(buffer, &map);
  return buffer;
}

GstBufferPool* pool_of(GstCudaContext* context, const Caps& caps) {
  auto wrapped = wrap_context(context);
  GstBufferPool* pool = new_local_pool(*wrapped);
  GstStructure* config = gst_buffer_pool_get_config(pool);
  gst_buffer_pool_config_set_params(config, caps.get(), 0, 0, 0);
  EXPECT_TRUE(gst_buffer_pool_set_config(pool, config));
  EXPECT_TRUE(gst_buffer_pool_set_active(pool, TRUE));
  return pool;
}

oracle::Matrix oracle_matrix(kernels::Matrix m) {
  switch (m) {
    case kernels::Matrix::Rgb:
      return oracle::Matrix::Rgb;
    case kernels::Matrix::Bt601:
      return oracle::Matrix::Bt601;
    case kernels::Matrix::Bt709:
      return oracle::Matrix::Bt709;
    case kernels::Matrix::Bt2020:
      return oracle::Matrix::Bt2020;
    case kernels::Matrix::Smpte240m:
      return oracle::Matrix::Smpte240m;
    case kernels::Matrix::Fcc:
      return oracle::Matrix::Fcc;
  }
  return oracle::Matrix::Rgb;
}

// A mapped frame for the oracle.
struct Seen {
  GstBuffer* buffer;
  GstMapInfo map;
  oracle::Picture picture;

  Seen(GstBuffer* b, const VideoPicture& p) : buffer(b) {
    EXPECT_TRUE(gst_buffer_map(b, &map, GST_MAP_READ));
    const GstVideoMeta* meta = gst_buffer_get_video_meta(b);
    picture.format = p.picture.format->name;
    picture.width = meta ? static_cast<int>(meta->width) : p.picture.width;
    picture.height = meta ? static_cast<int>(meta->height) : p.picture.height;
    picture.colour.matrix = oracle_matrix(p.picture.colour.matrix);
    picture.colour.full = p.picture.colour.range == kernels::Range::Full;
    picture.colour.site = {p.picture.siting.x == kernels::Phase::Even,
                           p.picture.siting.y[1] == kernels::Phase::Even,
                           p.picture.siting.y[0] == kernels::Phase::Odd};
    for (int k = 0; k < p.picture.format->planes; ++k) {
      picture.plane[k] = map.data + (meta ? meta->offset[k] : p.info.offset[k]);
      picture.stride[k] = meta ? meta->stride[k] : p.info.stride[k];
    }
  }
  ~Seen() { gst_buffer_unmap(buffer, &map); }
};

// Within the bound of 8-bit codes of what a perfect converter makes of it.
void expect_exact(GstBuffer* in, const VideoPicture& from, GstBuffer* out, const VideoPicture& to) {
  const Seen a(in, from), b(out, to);
  oracle::Rect crop{0, 0, to.picture.width, to.picture.height};
  if (const GstVideoCropMeta* meta = gst_buffer_get_video_crop_meta(in))
    crop.x = static_cast<int>(meta->x), crop.y = static_cast<int>(meta->y);
  const oracle::Components want =
      oracle::convert(a.picture, crop, b.picture.format, b.picture.colour);
  const oracle::Verdict v = oracle::compare(oracle::read(b.picture).components, want);
  EXPECT_LE(v.max_error, 0.501) << from.picture.format->name << " to " << to.picture.format->name
                                << ", component " << v.component << " at " << v.x << "," << v.y
                                << ": " << v.got << ", exactly " << v.want;
}

TEST(Passthrough, EqualCapsAreTheSameBufferAndNoKernel) {
  Watchdog watchdog;
  for (const char* memory : {kSystem, kCuda}) {
    Convert c;
    const std::string caps = video(memory, "NV12", 64, 32);
    ASSERT_TRUE(c.negotiate(caps, caps));
    const uint64_t before = calls("cuLaunchKernel");
    GstBuffer* in = gst_buffer_new_allocate(nullptr, 64 * 32 * 3 / 2, nullptr);
    GstBuffer* out = c.convert(gst_buffer_ref(in));
    EXPECT_EQ(out, in);
    EXPECT_EQ(calls("cuLaunchKernel"), before);
    EXPECT_EQ(c.stat("frames"), 0u);
    gst_buffer_unref(in);
    gst_buffer_unref(out);
  }
}

struct MemoryCase {
  const char* from_memory;
  const char* from;
  const char* to_memory;
  const char* to;
};

class Memories : public testing::TestWithParam<MemoryCase> {};

TEST_P(Memories, OneKernelAFrameAndExactPixels) {
  Watchdog watchdog;
  const MemoryCase& p = GetParam();
  for (const auto& [width, height] : {std::pair{64, 48}, {35, 17}, {1, 1}}) {
    Convert c;
    const Caps in = caps_of(video(p.from_memory, p.from, width, height));
    ASSERT_TRUE(c.negotiate(video(p.from_memory, p.from, width, height),
                            video(p.to_memory, p.to, width, height)));
    const VideoPicture from = picture_of(in), to = picture_of(c.output());
    GstCudaContext* context = c.context();
    ASSERT_NE(context, nullptr);
    GstBufferPool* pool = pool_of(context, in);
    gst_object_unref(context);
    const uint64_t before = calls("cuLaunchKernel");
    for (unsigned n = 0; n < 3; ++n) {
      GstBuffer* buffer = from.cuda ? cuda_noise(pool, n) : system_noise(from, n);
      GST_BUFFER_PTS(buffer) = n * GST_SECOND;
      GstBuffer* out = c.convert(gst_buffer_ref(buffer));
      ASSERT_NE(out, nullptr);
      EXPECT_EQ(GST_BUFFER_PTS(out), n * GST_SECOND);
      EXPECT_EQ(gst_is_cuda_memory(gst_buffer_peek_memory(out, 0)), to.cuda);
      expect_exact(buffer, from, out, to);
      gst_buffer_unref(buffer);
      gst_buffer_unref(out);
    }
    const bool same = std::string(p.from) == p.to;
    EXPECT_EQ(calls("cuLaunchKernel") - before, same ? 0u : 3u);
    EXPECT_EQ(c.stat("frames"), 3u);
    EXPECT_EQ(c.stat("copied"), same ? 3u : 0u);
    EXPECT_EQ(c.stat("uploaded"), from.cuda ? 0u : 3u);
    EXPECT_EQ(c.stat("downloaded"), to.cuda ? 0u : 3u);
    gst_buffer_pool_set_active(pool, FALSE);
    gst_object_unref(pool);
  }
}

INSTANTIATE_TEST_SUITE_P(All, Memories,
                         testing::Values(MemoryCase{kCuda, "NV12", kCuda, "RGBA"},
                                         MemoryCase{kSystem, "NV12", kCuda, "RGB"},
                                         MemoryCase{kCuda, "RGBA", kSystem, "I420"},
                                         MemoryCase{kSystem, "YV12", kSystem, "BGRP"},
                                         MemoryCase{kSystem, "Y42B", kSystem, "NV21"},
                                         MemoryCase{kSystem, "VUYA", kCuda, "GRAY8"},
                                         MemoryCase{kSystem, "NV12", kCuda, "NV12"},
                                         MemoryCase{kCuda, "I420", kSystem, "I420"}));

TEST(HotPath, AFrameInGpuMemoryAllocatesAndWaitsForNothing) {
  Watchdog watchdog;
  Convert c;
  const Caps in = caps_of(video(kCuda, "NV12", 64, 48));
  ASSERT_TRUE(c.negotiate(video(kCuda, "NV12", 64, 48), video(kCuda, "RGBA", 64, 48)));
  GstCudaContext* context = c.context();
  GstBufferPool* pool = pool_of(context, in);
  gst_object_unref(context);
  const auto frame = [&] {
    GstBuffer* buffer = nullptr;
    ASSERT_EQ(gst_buffer_pool_acquire_buffer(pool, &buffer, nullptr), GST_FLOW_OK);
    gst_buffer_unref(c.convert(buffer));
  };
  for (int i = 0; i < 5; ++i)
    frame();
  const char* const functions[] = {"cuMemAlloc",          "cuMemFree",        "cuMemHostAlloc",
                                   "cuStreamSynchronize", "cuCtxSynchronize", "cuEventCreate",
                                   "cuEventSynchronize",  "cuModuleLoadData", "cuModuleGetFunction",
                                   "cuStreamCreate",      "cuMemcpy2DAsync"};
  std::vector<uint64_t> before;
  for (const char* f : functions)
    before.push_back(calls(f));
  const uint64_t launches = calls("cuLaunchKernel");
  for (int i = 0; i < 200; ++i)
    frame();
  for (size_t i = 0; i < std::size(functions); ++i)
    EXPECT_EQ(calls(functions[i]), before[i]) << functions[i];
  EXPECT_EQ(calls("cuLaunchKernel") - launches, 200u);
  gst_buffer_pool_set_active(pool, FALSE);
  gst_object_unref(pool);
}

struct ChoiceCase {
  std::string in, out;
  const char *format, *colorimetry, *site;
};

class Choices : public testing::TestWithParam<ChoiceCase> {};

TEST_P(Choices, TheOutputIsWhatLosesLeast) {
  Watchdog watchdog;
  const ChoiceCase& p = GetParam();
  Convert c("colorimetry-policy=strict");
  ASSERT_TRUE(c.negotiate(p.in, p.out)) << c.message(GST_MESSAGE_ERROR);
  EXPECT_EQ(c.output_field("format"), p.format);
  EXPECT_EQ(c.output_field("colorimetry"), p.colorimetry);
  EXPECT_EQ(c.output_field("chroma-site"), p.site);
}

INSTANTIATE_TEST_SUITE_P(
    All, Choices,
    testing::Values(
        // Open: nothing changes.
        ChoiceCase{video(kCuda, "NV12", 1920, 1080, ",colorimetry=bt709,chroma-site=mpeg2"), kCuda,
                   "NV12", "bt709", "mpeg2"},
        // Depth before family.
        ChoiceCase{video(kCuda, "P010_10LE", 1920, 1080, ",colorimetry=bt2100-pq"),
                   std::string(kCuda) + ",format={RGBA,RGB10A2_LE,NV12}", "RGB10A2_LE", "1:1:14:7",
                   ""},
        // Alpha and colour before bytes.
        ChoiceCase{video(kCuda, "RGBA", 64, 48),
                   std::string(kCuda) + ",format={GRAY8,RGB,NV12,BGRA}", "BGRA", "", ""},
        ChoiceCase{video(kCuda, "NV12", 64, 48), std::string(kCuda) + ",format={GRAY8,RGB,I420}",
                   "I420", "", ""},
        // YUV to RGB keeps primaries and transfer.
        ChoiceCase{video(kCuda, "NV12", 1920, 1080, ",colorimetry=bt709"),
                   std::string(kCuda) + ",format=RGBA", "RGBA", "1:1:5:1", ""},
        // RGB to YUV takes the matrix of the primaries and the siting of BT.2020.
        ChoiceCase{video(kCuda, "RGB10A2_LE", 1920, 1080, ",colorimetry=1:1:14:7"),
                   std::string(kCuda) + ",format=P010_10LE", "P010_10LE", "bt2100-pq", "cosited"},
        // The same subsampling keeps the siting.
        ChoiceCase{video(kCuda, "NV12", 1920, 1080, ",colorimetry=bt709,chroma-site=jpeg"),
                   std::string(kCuda) + ",format=I420", "I420", "bt709", "jpeg"},
        // Colour before memory.
        ChoiceCase{video(kCuda, "NV12", 64, 48),
                   std::string(kCuda) + ",format=GRAY8; video/x-raw,format=I420", "I420", "", ""},
        // What the input's caps leave open is what it is, not the first of a list.
        ChoiceCase{video(kCuda, "NV12", 64, 48),
                   std::string(kCuda) + ",format=NV12,colorimetry={bt709,bt601},"
                                        "chroma-site={mpeg2,jpeg}",
                   "NV12", "bt601", "jpeg"},
        // Where the natural one is not to be had, one that means the same.
        ChoiceCase{video(kCuda, "NV12", 64, 48, ",colorimetry=bt709"),
                   std::string(kCuda) + ",format=I420,colorimetry={bt2020,2:4:5:1}", "I420",
                   "2:4:5:1", ""},
        // What cannot be written passes.
        ChoiceCase{video(kCuda, "Y42B", 64, 48), kCuda, "Y42B", "", ""},
        // GPU memory where both are taken.
        ChoiceCase{video(kSystem, "NV12", 64, 48),
                   "video/x-raw,format=RGBA; " + std::string(kCuda) + ",format=RGBA", "RGBA",
                   "1:1:16:4", ""}));

TEST(Choices, AnOpenAspectRatioIsSquare) {
  Watchdog watchdog;
  for (const char* format : {"NV12", "RGBA"}) {
    Convert c;
    ASSERT_TRUE(c.negotiate(video(kCuda, "NV12", 64, 48),
                            std::string(kCuda) + ",format=" + format +
                                ",pixel-aspect-ratio=[1/2147483647,2147483647/1]"));
    gint n = 0, d = 0;
    gst_structure_get_fraction(gst_caps_get_structure(c.output().get(), 0), "pixel-aspect-ratio",
                               &n, &d);
    EXPECT_EQ(n, d);
  }
}

TEST(Refusals, AnotherMeaningIsRefusedInWords) {
  Watchdog watchdog;
  Convert c;
  EXPECT_FALSE(c.negotiate(video(kCuda, "P010_10LE", 64, 48, ",colorimetry=bt2100-pq"),
                           video(kCuda, "RGBA", 64, 48, ",colorimetry=sRGB")));
  const std::string text = c.message(GST_MESSAGE_ERROR);
  for (const char* word : {"primaries 9 and 1", "transfer 16 and 13", "bt2100-pq", "sRGB",
                           "colorimetry-policy=matrix-only"})
    EXPECT_NE(text.find(word), std::string::npos) << word << " in: " << text;
}

TEST(Refusals, MatrixOnlyConvertsAndWarnsOnce) {
  Watchdog watchdog;
  Convert c("colorimetry-policy=matrix-only");
  const std::string in = video(kSystem, "NV12", 64, 48, ",colorimetry=bt2020");
  const std::string out = video(kSystem, "RGBA", 64, 48, ",colorimetry=sRGB");
  ASSERT_TRUE(c.negotiate(in, out));
  const VideoPicture from = picture_of(caps_of(in)), to = picture_of(c.output());
  GstBuffer* buffer = system_noise(from, 7);
  GstBuffer* converted = c.convert(gst_buffer_ref(buffer));
  expect_exact(buffer, from, converted, to);
  gst_buffer_unref(buffer);
  gst_buffer_unref(converted);
  EXPECT_NE(c.message(GST_MESSAGE_WARNING).find("primaries 9 and 1"), std::string::npos);
  EXPECT_EQ(c.message(GST_MESSAGE_WARNING), "");
}

TEST(Refusals, EquivalentTransfersAreTheSame) {
  Watchdog watchdog;
  Convert c;
  // BT.709 and BT.601 have one transfer function (ITU-R BT.601-7, 1.2).
  EXPECT_TRUE(c.negotiate(video(kCuda, "NV12", 64, 48, ",colorimetry=2:3:5:1"),
                          video(kCuda, "NV12", 64, 48, ",colorimetry=2:4:16:1")))
      << c.message(GST_MESSAGE_ERROR);
}

TEST(Refusals, InterlacedChromaIsNotMixed) {
  Watchdog watchdog;
  const std::string interlaced = ",interlace-mode=interleaved";
  Convert refused;
  EXPECT_FALSE(refused.negotiate(video(kCuda, "NV12", 64, 48, interlaced),
                                 video(kCuda, "RGBA", 64, 48, interlaced)));
  EXPECT_NE(refused.message(GST_MESSAGE_ERROR).find("belong to fields"), std::string::npos);
  Convert repacked;
  EXPECT_TRUE(repacked.negotiate(video(kCuda, "NV12", 64, 48, interlaced),
                                 video(kCuda, "I420", 64, 48, interlaced)));
  Convert horizontal;
  EXPECT_TRUE(horizontal.negotiate(video(kCuda, "Y42B", 64, 48, interlaced),
                                   video(kCuda, "RGBA", 64, 48, interlaced)));
}

TEST(Refusals, ViewsAreNotMixed) {
  Watchdog watchdog;
  Convert mixed;
  const std::string rows = ",multiview-mode=row-interleaved";
  EXPECT_FALSE(
      mixed.negotiate(video(kCuda, "NV12", 64, 48, rows), video(kCuda, "RGBA", 64, 48, rows)));
  EXPECT_NE(mixed.message(GST_MESSAGE_ERROR).find("interleaved views"), std::string::npos);
  Convert separate;
  const std::string each = ",multiview-mode=separated,views=2";
  EXPECT_FALSE(
      separate.negotiate(video(kCuda, "NV12", 64, 48, each), video(kCuda, "RGBA", 64, 48, each)));
  EXPECT_NE(separate.message(GST_MESSAGE_ERROR).find("separate frames"), std::string::npos);
}

TEST(Refusals, NothingThatFitsIsSaidOnTheBus) {
  Watchdog watchdog;
  Convert c;
  EXPECT_FALSE(c.negotiate(video(kCuda, "NV12", 64, 48), video(kCuda, "RGBA", 128, 48)));
  EXPECT_NE(c.message(GST_MESSAGE_ERROR).find("Downstream takes nothing"), std::string::npos);
}

TEST(Defaults, AnUnknownColorimetryIsWarnedOfOnce) {
  Watchdog watchdog;
  Convert c;
  const std::string in = video(kSystem, "NV12", 1280, 720, ",colorimetry=2:0:0:0");
  ASSERT_TRUE(c.negotiate(in, video(kSystem, "RGBA", 1280, 720)));
  EXPECT_NE(c.message(GST_MESSAGE_WARNING).find("taken as that of bt709"), std::string::npos);
  EXPECT_EQ(picture_of(caps_of(in)).picture.colour.matrix, kernels::Matrix::Bt709);
  ASSERT_TRUE(c.negotiate(video(kSystem, "NV12", 640, 360, ",colorimetry=2:0:0:0"),
                          video(kSystem, "RGBA", 640, 360)));
  EXPECT_EQ(c.message(GST_MESSAGE_WARNING), "");
}

TEST(Defaults, SitingAndMatrixFollowTheHeight) {
  const auto picture = [](int height, const char* more) {
    return picture_of(caps_of(video(kSystem, "NV12", 64, height, more))).picture;
  };
  using kernels::Matrix;
  using kernels::Phase;
  EXPECT_EQ(picture(576, "").colour.matrix, Matrix::Bt601);
  EXPECT_EQ(picture(578, "").colour.matrix, Matrix::Bt709);
  EXPECT_EQ(picture(576, "").siting.x, Phase::Centred);
  EXPECT_EQ(picture(578, "").siting.x, Phase::Even);
  EXPECT_EQ(picture(578, "").siting.y[0], Phase::Centred);
  EXPECT_EQ(picture(578, ",chroma-site=cosited").siting.y[0], Phase::Even);
  EXPECT_EQ(picture(578, ",chroma-site=dv").siting.y[0], Phase::Odd);
  EXPECT_EQ(picture(578, ",chroma-site=dv").siting.y[1], Phase::Even);
  EXPECT_EQ(picture(578, ",colorimetry=2:6:0:0").colour.matrix, Matrix::Bt2020);
}

GstBuffer* with_crop(GstBuffer* buffer, guint x, guint y, guint width, guint height) {
  GstVideoCropMeta* crop = gst_buffer_add_video_crop_meta(buffer);
  crop->x = x, crop->y = y, crop->width = width, crop->height = height;
  return buffer;
}

TEST(Crop, AnyOffsetOfALargerFrame) {
  Watchdog watchdog;
  for (const bool cuda : {false, true}) {
    Convert c;
    const char* memory = cuda ? kCuda : kSystem;
    ASSERT_TRUE(c.negotiate(video(memory, "NV12", 40, 30), video(kSystem, "RGBA", 40, 30)));
    const VideoPicture shown = picture_of(caps_of(video(memory, "NV12", 40, 30)));
    const VideoPicture to = picture_of(c.output());
    const Caps whole_caps = caps_of(video(memory, "NV12", 61, 47));
    VideoPicture whole = picture_of(whole_caps);
    GstCudaContext* context = c.context();
    GstBufferPool* pool = pool_of(context, whole_caps);
    gst_object_unref(context);
    for (const auto& [x, y] : {std::pair{0u, 0u}, {2u, 4u}, {3u, 4u}, {2u, 7u}, {21u, 17u}}) {
      GstBuffer* buffer = cuda ? cuda_noise(pool, x) : system_noise(whole, x);
      if (!cuda)
        gst_buffer_add_video_meta_full(buffer, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_NV12, 61,
                                       47, 2, whole.info.offset, whole.info.stride);
      buffer = with_crop(buffer, x, y, 40, 30);
      gst_buffer_add_video_region_of_interest_meta(buffer, "face", x + 5, y + 6, 7, 8);
      GstBuffer* out = c.convert(gst_buffer_ref(buffer));
      ASSERT_NE(out, nullptr) << c.message(GST_MESSAGE_ERROR);
      VideoPicture from = shown;
      expect_exact(buffer, from, out, to);
      EXPECT_EQ(gst_buffer_get_video_crop_meta(out), nullptr);
      const auto* roi = reinterpret_cast<const GstVideoRegionOfInterestMeta*>(
          gst_buffer_get_meta(out, GST_VIDEO_REGION_OF_INTEREST_META_API_TYPE));
      ASSERT_NE(roi, nullptr);
      EXPECT_EQ(roi->x, 5u);
      EXPECT_EQ(roi->y, 6u);
      gst_buffer_unref(buffer);
      gst_buffer_unref(out);
    }
    gst_buffer_pool_set_active(pool, FALSE);
    gst_object_unref(pool);
  }
}

TEST(BadFrames, WhatIsNotInsideIsAnErrorAndNotARead) {
  Watchdog watchdog;
  const VideoPicture whole = picture_of(caps_of(video(kSystem, "NV12", 64, 48)));
  const auto error = [&](const std::function<GstBuffer*(GstBuffer*)>& spoil) {
    Convert c;
    EXPECT_TRUE(c.negotiate(video(kSystem, "NV12", 64, 48), video(kSystem, "RGBA", 64, 48)));
    EXPECT_EQ(c.push(spoil(system_noise(whole, 1))), GST_FLOW_ERROR);
    return c.message(GST_MESSAGE_ERROR);
  };
  const auto meta = [](GstBuffer* b, GstVideoFormat format, guint width, guint height, gsize second,
                       gint stride) {
    gsize offsets[4] = {0, second, 0, 0};
    gint strides[4] = {stride, stride, 0, 0};
    gst_buffer_add_video_meta_full(b, GST_VIDEO_FRAME_FLAG_NONE, format, width, height, 2, offsets,
                                   strides);
    return b;
  };
  EXPECT_NE(error([](GstBuffer* b) {
              gst_buffer_set_size(b, 64 * 48);
              return b;
            }).find("plane 1"),
            std::string::npos);
  EXPECT_NE(error([&](GstBuffer* b) {
              return meta(b, GST_VIDEO_FORMAT_NV12, 64, 48, 64 * 60, 64);
            }).find("not inside the memory"),
            std::string::npos);
  EXPECT_NE(error([&](GstBuffer* b) {
              return meta(b, GST_VIDEO_FORMAT_NV12, 64, 48, 64 * 48, G_MAXINT);
            }).find("not inside the memory"),
            std::string::npos);
  EXPECT_NE(error([&](GstBuffer* b) {
              return meta(b, GST_VIDEO_FORMAT_NV12, 64, 48, 64 * 48, -64);
            }).find("not inside the memory"),
            std::string::npos);
  EXPECT_NE(error([&](GstBuffer* b) {
              return meta(b, GST_VIDEO_FORMAT_NV12, 64, 48, G_MAXSIZE - 5, 64);
            }).find("not inside the memory"),
            std::string::npos);
  EXPECT_NE(error([&](GstBuffer* b) {
              return meta(b, GST_VIDEO_FORMAT_NV21, 64, 48, 64 * 48, 64);
            }).find("video meta says NV21"),
            std::string::npos);
  EXPECT_NE(error([&](GstBuffer* b) {
              return meta(b, GST_VIDEO_FORMAT_NV12, 32, 48, 64 * 48, 64);
            }).find("not inside the frame of 32x48"),
            std::string::npos);
  EXPECT_NE(error([](GstBuffer* b) { return with_crop(b, 0, 0, 32, 24); }).find("does not scale"),
            std::string::npos);
  EXPECT_NE(error([](GstBuffer* b) {
              return with_crop(b, G_MAXUINT - 10, 0, 64, 48);
            }).find("not inside the frame"),
            std::string::npos);
}

TEST(BadFrames, CudaCapsOverSystemMemory) {
  Watchdog watchdog;
  Convert c;
  ASSERT_TRUE(c.negotiate(video(kCuda, "NV12", 64, 48), video(kCuda, "RGBA", 64, 48)));
  const VideoPicture p = picture_of(caps_of(video(kSystem, "NV12", 64, 48)));
  EXPECT_EQ(c.push(system_noise(p, 1)), GST_FLOW_ERROR);
  EXPECT_NE(c.message(GST_MESSAGE_ERROR).find("not one CUDA memory"), std::string::npos);
}

// --- The frame path without the element

class Frames : public testing::Test {
 protected:
  Frames() : context_(gst_cuda_context_new(0)) {
    auto made = FrameConverter::create(*wrap_context(context_));
    EXPECT_TRUE(made) << (made ? "" : made.error().message);
    frames_ = std::move(*made);
  }
  ~Frames() override {
    frames_.reset();
    gst_object_unref(context_);
  }
  void set(const std::string& from, const std::string& to) {
    from_ = picture_of(caps_of(from));
    to_ = picture_of(caps_of(to));
    auto done = frames_->set_pictures(from_, to_);
    ASSERT_TRUE(done) << done.error().message;
  }
  // The same bytes, upside down: the last row first, strides negative.
  static GstBuffer* bottom_up(GstBuffer* buffer, const VideoPicture& p) {
    gsize offset[GST_VIDEO_MAX_PLANES] = {};
    gint stride[GST_VIDEO_MAX_PLANES] = {};
    for (int k = 0; k < p.picture.format->planes; ++k) {
      const int rows = p.picture.format->rows(k, p.picture.height);
      stride[k] = -p.info.stride[k];
      offset[k] = p.info.offset[k] + static_cast<gsize>((rows - 1) * p.info.stride[k]);
    }
    // A pool's buffers have one that stays.
    if (GstVideoMeta* meta = gst_buffer_get_video_meta(buffer)) {
      std::copy_n(offset, GST_VIDEO_MAX_PLANES, meta->offset);
      std::copy_n(stride, GST_VIDEO_MAX_PLANES, meta->stride);
      return buffer;
    }
    gst_buffer_add_video_meta_full(
        buffer, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_INFO_FORMAT(&p.info),
        static_cast<guint>(p.picture.width), static_cast<guint>(p.picture.height),
        static_cast<guint>(p.picture.format->planes), offset, stride);
    return buffer;
  }

  Watchdog watchdog_;
  GstCudaContext* context_;
  std::unique_ptr<FrameConverter> frames_;
  VideoPicture from_, to_;
  ConvertCounters counters_;
};

TEST_F(Frames, StridesThatGoBackAreExactWhateverTheMemory) {
  for (const char* from_memory : {kSystem, kCuda}) {
    for (const char* to_memory : {kSystem, kCuda}) {
      for (const char* to : {"RGBA", "NV12"}) {
        set(video(from_memory, "NV12", 48, 20), video(to_memory, to, 48, 20));
        const auto buffer = [&](const VideoPicture& p, const char* memory, const char* format) {
          if (!p.cuda)
            return bottom_up(system_noise(p, 3), p);
          // One that a pool laid out forward, turned round.
          GstBufferPool* pool = pool_of(context_, caps_of(video(memory, format, 48, 20)));
          GstBuffer* made = cuda_noise(pool, 3);
          VideoPicture placed = p;
          place(placed.info);
          bottom_up(made, placed);
          gst_buffer_pool_set_active(pool, FALSE);
          gst_object_unref(pool);
          return made;
        };
        GstBuffer* in = buffer(from_, from_memory, "NV12");
        GstBuffer* out = buffer(to_, to_memory, to);
        auto done = frames_->convert(in, out, counters_);
        EXPECT_TRUE(done) << from_memory << " to " << to_memory << ", " << to << ": "
                          << (done ? "" : done.error().message);
        expect_exact(in, from_, out, to_);
        gst_buffer_unref(in);
        gst_buffer_unref(out);
      }
    }
  }
}

TEST_F(Frames, AnOutputSmallerThanTheCapsIsAnErrorAndNotAWrite) {
  set(video(kSystem, "NV12", 64, 48), video(kSystem, "RGBA", 64, 48));
  const VideoPicture small = picture_of(caps_of(video(kSystem, "RGBA", 32, 24)));
  GstBuffer* in = system_noise(from_, 1);
  GstBuffer* out = system_noise(small, 1);
  gst_buffer_add_video_meta_full(out, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_RGBA, 32, 24, 1,
                                 const_cast<gsize*>(small.info.offset),
                                 const_cast<gint*>(small.info.stride));
  auto done = frames_->convert(in, out, counters_);
  ASSERT_FALSE(done);
  EXPECT_NE(done.error().message.find("less than the caps say"), std::string::npos);
  gst_buffer_unref(in);
  gst_buffer_unref(out);
}

TEST_F(Frames, CropsOfInterlacedFramesKeepTheFields) {
  const std::string interlaced = ",interlace-mode=interleaved";
  set(video(kSystem, "NV12", 32, 16, interlaced), video(kSystem, "I420", 32, 16, interlaced));
  const VideoPicture whole = picture_of(caps_of(video(kSystem, "NV12", 32, 24)));
  for (const guint y : {0u, 1u, 2u, 4u, 6u, 8u}) {
    GstBuffer* in = system_noise(whole, y);
    gst_buffer_add_video_meta_full(in, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_NV12, 32, 24, 2,
                                   const_cast<gsize*>(whole.info.offset),
                                   const_cast<gint*>(whole.info.stride));
    with_crop(in, 0, y, 32, 16);
    GstBuffer* out = system_noise(to_, 1);
    EXPECT_EQ(bool(frames_->convert(in, out, counters_)), y % 4 == 0) << y;
    gst_buffer_unref(in);
    gst_buffer_unref(out);
  }
}

TEST_F(Frames, ManyOfSystemMemoryInARowAreEachTheirOwn) {
  set(video(kSystem, "NV12", 64, 48), video(kCuda, "RGBA", 64, 48));
  GstBufferPool* pool = pool_of(context_, caps_of(video(kCuda, "RGBA", 64, 48)));
  std::vector<GstBuffer*> ins, outs;
  for (unsigned n = 0; n < 12; ++n) {
    ins.push_back(system_noise(from_, n));
    GstBuffer* out = nullptr;
    ASSERT_EQ(gst_buffer_pool_acquire_buffer(pool, &out, nullptr), GST_FLOW_OK);
    outs.push_back(out);
    ASSERT_TRUE(frames_->convert(ins.back(), out, counters_));
  }
  for (size_t n = 0; n < ins.size(); ++n) {
    expect_exact(ins[n], from_, outs[n], to_);
    gst_buffer_unref(ins[n]);
    gst_buffer_unref(outs[n]);
  }
  gst_buffer_pool_set_active(pool, FALSE);
  gst_object_unref(pool);
}

TEST(Context, FollowsTheFramesToTheirs) {
  Watchdog watchdog;
  Convert c;
  const Caps in = caps_of(video(kCuda, "NV12", 64, 48));
  ASSERT_TRUE(c.negotiate(video(kCuda, "NV12", 64, 48), video(kCuda, "RGBA", 64, 48)));
  GstCudaContext* other = gst_cuda_context_new(0);
  ASSERT_NE(other, nullptr);
  GstBufferPool* pool = pool_of(other, in);
  for (unsigned n = 0; n < 3; ++n) {
    GstBuffer* buffer = cuda_noise(pool, n);
    GstBuffer* out = c.convert(gst_buffer_ref(buffer));
    ASSERT_NE(out, nullptr) << c.message(GST_MESSAGE_ERROR);
    EXPECT_EQ(GST_CUDA_MEMORY_CAST(gst_buffer_peek_memory(out, 0))->context, other);
    expect_exact(buffer, picture_of(in), out, picture_of(c.output()));
    gst_buffer_unref(buffer);
    gst_buffer_unref(out);
  }
  gst_buffer_pool_set_active(pool, FALSE);
  gst_object_unref(pool);
  gst_object_unref(other);
}

}  // namespace
}  // namespace cudaipc::test

int main(int argc, char** argv) {
  gst_init(&argc, &argv);
  gst_cuda_load_library();
  gst_cuda_memory_init_once();
  gst_element_register(nullptr, "cudacolorconvert", GST_RANK_NONE, cudaipc::convert_get_type());
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
