// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Both elements, through GstHarness, in one process and on the software device.
#include <dlfcn.h>
#include <gst/check/gstharness.h>
#include <gst/cuda/gstcudaloader.h>
#include <gst/cuda/gstcudamemory.h>
#include <gst/video/video-anc.h>
#include <gst/video/video.h>
#include <gtest/gtest.h>

#include <chrono>
#include <functional>
#include <memory>
#include <thread>

#include "gst/elements.h"
#include "tests/unit/support.h"

namespace cudaipc::test {
namespace {

using Clock = std::chrono::steady_clock;

struct HarnessFree {
  void operator()(GstHarness* h) const { gst_harness_teardown(h); }
};
using Harness = std::unique_ptr<GstHarness, HarnessFree>;

Harness harness(const std::string& line) {
  GstElement* element = gst_parse_launch(line.c_str(), nullptr);
  const bool source = GST_OBJECT_FLAG_IS_SET(element, GST_ELEMENT_FLAG_SOURCE);
  Harness h(source ? gst_harness_new_with_element(element, nullptr, "src")
                   : gst_harness_new_with_element(element, "sink", nullptr));
  gst_object_unref(element);
  gst_harness_use_systemclock(h.get());
  return h;
}

// A sink and a source over one address.
struct Pair {
  explicit Pair(const std::string& sink_options = "", const std::string& src_options = "")
      : address(dir / "s"),
        sink(harness("cudaipcvideosink name=e sync=false slow-consumer=block address=" + address +
                     " " + sink_options)),
        src(harness("cudaipcvideosrc name=e address=" + address + " " + src_options)) {
    gst_harness_play(sink.get());
    gst_harness_play(src.get());
    wait_consumers(1);
  }
  void wait_consumers(guint count) const {
    guint n = 0;
    while (n != count) {
      g_object_get(sink->element, "num-consumers", &n, nullptr);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  void set_caps(const std::string& caps) const {
    gst_harness_set_src_caps_str(sink.get(), caps.c_str());
  }
  void push(GstBuffer* buffer) const {
    ASSERT_EQ(gst_harness_push(sink.get(), buffer), GST_FLOW_OK);
  }
  GstBuffer* pull() const { return gst_harness_pull(src.get()); }

  Watchdog watchdog;
  TempDir dir;
  std::string address;
  Harness sink;
  Harness src;
};

GstBuffer* noise(const GstVideoInfo& info, unsigned seed) {
  GstBuffer* buffer = gst_buffer_new_allocate(nullptr, GST_VIDEO_INFO_SIZE(&info), nullptr);
  GstMapInfo map;
  gst_buffer_map(buffer, &map, GST_MAP_WRITE);
  for (gsize i = 0; i < map.size; ++i) {
    seed = seed * 1664525u + 1013904223u;
    map.data[i] = static_cast<guint8>(seed >> 24);
  }
  gst_buffer_unmap(buffer, &map);
  return buffer;
}

// Compares what carries picture; a different implementation from the product's on purpose: through
// GStreamer's own unpack functions, which every format has.
bool same_picture(const GstVideoInfo& info, GstBuffer* a, GstBuffer* b) {
  GstVideoFrame fa, fb;
  if (!gst_video_frame_map(&fa, &info, a, GST_MAP_READ))
    return false;
  if (!gst_video_frame_map(&fb, &info, b, GST_MAP_READ)) {
    gst_video_frame_unmap(&fa);
    return false;
  }
  const GstVideoFormatInfo* unpacked = gst_video_format_get_info(info.finfo->unpack_format);
  const size_t pixel = static_cast<size_t>(GST_VIDEO_FORMAT_INFO_PSTRIDE(unpacked, 0));
  const gint width = GST_VIDEO_INFO_WIDTH(&info);
  // Unpack functions write whole groups of pixels.
  std::vector<guint8> la((static_cast<size_t>(width) + 64) * pixel), lb(la.size());
  bool same = true;
  for (gint y = 0; y < GST_VIDEO_INFO_HEIGHT(&info) && same; ++y) {
    info.finfo->unpack_func(info.finfo, GST_VIDEO_PACK_FLAG_NONE, la.data(), fa.data,
                            fa.info.stride, 0, y, width);
    info.finfo->unpack_func(info.finfo, GST_VIDEO_PACK_FLAG_NONE, lb.data(), fb.data,
                            fb.info.stride, 0, y, width);
    same = std::equal(la.begin(), la.begin() + static_cast<long>(pixel) * width, lb.begin());
  }
  gst_video_frame_unmap(&fa);
  gst_video_frame_unmap(&fb);
  return same;
}

std::string caps_text(const GstVideoInfo& info) {
  GstCaps* caps = gst_video_info_to_caps(&info);
  gchar* text = gst_caps_to_string(caps);
  std::string result = text;
  g_free(text);
  gst_caps_unref(caps);
  return result;
}

std::string bus_error(GstElement* element, const std::function<void()>& act) {
  GstBus* bus = gst_bus_new();
  gst_element_set_bus(element, bus);
  act();
  GstMessage* message = gst_bus_timed_pop_filtered(bus, 10 * GST_SECOND, GST_MESSAGE_ERROR);
  std::string text;
  if (message) {
    GError* error = nullptr;
    gst_message_parse_error(message, &error, nullptr);
    text = error->message;
    g_error_free(error);
    gst_message_unref(message);
  }
  gst_element_set_bus(element, nullptr);
  gst_bus_set_flushing(bus, TRUE);
  gst_object_unref(bus);
  return text;
}

guint64 stat(GstElement* element, const char* name) {
  GstStructure* stats = nullptr;
  g_object_get(element, "stats", &stats, nullptr);
  guint64 value = 0;
  EXPECT_TRUE(gst_structure_get_uint64(stats, name, &value)) << name;
  gst_structure_free(stats);
  return value;
}

GstElement* element_of(const Harness& h) {
  return h->element;
}

TEST(Elements, EveryRawFormatAndOddSizesArriveExact) {
  Pair pair;
  guint n_formats = 0;
  const GstVideoFormat* formats = gst_video_formats_raw(&n_formats);
  int frames = 0;
  for (guint f = 0; f < n_formats; ++f) {
    for (auto [width, height] : {std::pair{1, 1}, {3, 5}, {70, 38}}) {
      // Where pixels are no whole bytes, GStreamer's own rows are too short for the last group of
      // an odd width: its unpacker reads the next row, and there is nothing to compare.
      if (GST_VIDEO_FORMAT_INFO_PSTRIDE(gst_video_format_get_info(formats[f]), 0) == 0)
        width = (width + 5) / 6 * 6;
      GstVideoInfo info;
      gst_video_info_set_format(&info, formats[f], static_cast<guint>(width),
                                static_cast<guint>(height));
      pair.set_caps(caps_text(info));
      GstBuffer* sent = noise(info, f * 100u + static_cast<unsigned>(width));
      pair.push(gst_buffer_ref(sent));
      GstBuffer* got = pair.pull();
      ASSERT_TRUE(got);
      EXPECT_TRUE(gst_is_cuda_memory(gst_buffer_peek_memory(got, 0)));
      EXPECT_TRUE(same_picture(info, sent, got))
          << gst_video_format_to_string(formats[f]) << " " << width << "x" << height;
      gst_buffer_unref(sent);
      gst_buffer_unref(got);
      ++frames;
    }
  }
  EXPECT_EQ(stat(element_of(pair.sink), "frames"), static_cast<guint64>(frames));
  EXPECT_EQ(stat(element_of(pair.sink), "uploaded"), static_cast<guint64>(frames));
}

TEST(Elements, CudaMemoryOfOthersIsCopiedOnceAndCounted) {
  // From another context, as an element that shares none would have it.
  GstCudaContext* context = gst_cuda_context_new(0);
  ASSERT_TRUE(context);
  GstAllocator* allocator = gst_allocator_find(GST_CUDA_MEMORY_TYPE_NAME);
  Pair pair;
  GstVideoInfo info;
  gst_video_info_set_format(&info, GST_VIDEO_FORMAT_NV12, 70, 38);
  GstCaps* caps = gst_video_info_to_caps(&info);
  gst_caps_set_features(caps, 0,
                        gst_caps_features_new(GST_CAPS_FEATURE_MEMORY_CUDA_MEMORY, nullptr));
  gst_harness_set_src_caps(pair.sink.get(), caps);
  for (unsigned i = 0; i < 20; ++i) {
#if GST_CHECK_VERSION(1, 24, 0)
    GstMemory* memory =
        gst_cuda_allocator_alloc(GST_CUDA_ALLOCATOR(allocator), context, nullptr, &info);
#else
    GstMemory* memory = gst_cuda_allocator_alloc(GST_CUDA_ALLOCATOR(allocator), context, &info);
#endif
    ASSERT_TRUE(memory);
    GstVideoInfo placed = GST_CUDA_MEMORY_CAST(memory)->info;
    GstBuffer* sent = gst_buffer_new();
    gst_buffer_append_memory(sent, memory);
    gst_buffer_add_video_meta_full(sent, GST_VIDEO_FRAME_FLAG_NONE, GST_VIDEO_FORMAT_NV12, 70, 38,
                                   2, placed.offset, placed.stride);
    GstMapInfo map;
    ASSERT_TRUE(gst_buffer_map(sent, &map, GST_MAP_WRITE));
    for (gsize k = 0; k < map.size; ++k)
      map.data[k] = static_cast<guint8>(k * 7 + i);
    gst_buffer_unmap(sent, &map);
    pair.push(gst_buffer_ref(sent));
    GstBuffer* got = pair.pull();
    EXPECT_TRUE(same_picture(info, sent, got));
    gst_buffer_unref(got);
    gst_buffer_unref(sent);
  }
  EXPECT_EQ(stat(element_of(pair.sink), "copied"), 20u);
  EXPECT_EQ(stat(element_of(pair.sink), "uploaded"), 0u);
  gst_object_unref(allocator);
  gst_object_unref(context);
}

TEST(Elements, CopyModeAndSystemMemoryOutArriveExact) {
  GstVideoInfo info;
  gst_video_info_set_format(&info, GST_VIDEO_FORMAT_I420, 71, 33);
  {
    Pair pair("", "io-mode=copy");
    pair.set_caps(caps_text(info));
    GstBuffer* sent = noise(info, 7);
    pair.push(gst_buffer_ref(sent));
    GstBuffer* got = pair.pull();
    EXPECT_TRUE(same_picture(info, sent, got));
    EXPECT_FALSE(GST_MEMORY_IS_READONLY(gst_buffer_peek_memory(got, 0)));
    EXPECT_EQ(stat(element_of(pair.src), "copied"), 1u);
    gst_buffer_unref(sent);
    gst_buffer_unref(got);
  }
  Pair pair;
  gst_harness_set_sink_caps_str(pair.src.get(), "video/x-raw");
  pair.set_caps(caps_text(info));
  GstBuffer* sent = noise(info, 8);
  pair.push(gst_buffer_ref(sent));
  GstBuffer* got = pair.pull();
  EXPECT_FALSE(gst_is_cuda_memory(gst_buffer_peek_memory(got, 0)));
  EXPECT_TRUE(same_picture(info, sent, got));
  gst_buffer_unref(sent);
  gst_buffer_unref(got);
}

TEST(Elements, EveryCapsFieldTravels) {
  Pair pair;
  const char* sent =
      "video/x-raw, format=NV12, width=64, height=48, framerate=30000/1001, "
      "pixel-aspect-ratio=16/11, interlace-mode=interleaved, field-order=top-field-first, "
      "multiview-mode=mono, multiview-flags=0:ffffffff:/right-view-first/left-flipped/"
      "left-flopped/right-flipped/right-flopped/half-aspect/mixed-mono, chroma-site=top-left, "
      "colorimetry=bt2020-10, mastering-display-info=(string)"
      "\"34000:16000:13250:34500:7500:3000:15635:16450:10000000:1\", "
      "content-light-level=(string)1000:400, max-framerate=60/1, views=1, custom-field=(string)x";
  pair.set_caps(sent);
  GstVideoInfo info;
  gst_video_info_set_format(&info, GST_VIDEO_FORMAT_NV12, 64, 48);
  pair.push(noise(info, 1));
  gst_buffer_unref(pair.pull());
  GstCaps* got = gst_pad_get_current_caps(pair.src->sinkpad);
  ASSERT_TRUE(got);
  got = gst_caps_make_writable(got);
  EXPECT_TRUE(gst_caps_features_contains(gst_caps_get_features(got, 0),
                                         GST_CAPS_FEATURE_MEMORY_CUDA_MEMORY));
  gst_caps_set_features(got, 0, nullptr);
  GstCaps* expected = gst_caps_from_string(sent);
  EXPECT_TRUE(gst_caps_is_equal(got, expected)) << gst_caps_to_string(got);
  gst_caps_unref(got);
  gst_caps_unref(expected);
}

TEST(Elements, TimesFlagsAndOffsetsTravel) {
  Pair pair("", "timestamp-mode=original");
  GstVideoInfo info;
  gst_video_info_set_format(&info, GST_VIDEO_FORMAT_GRAY8, 16, 16);
  pair.set_caps(caps_text(info));
  GstSegment segment;
  gst_segment_init(&segment, GST_FORMAT_TIME);
  segment.start = 3 * GST_SECOND;
  segment.time = 7 * GST_SECOND;
  segment.rate = 2.0;
  gst_harness_push_event(pair.sink.get(), gst_event_new_segment(&segment));
  GstBuffer* buffer = noise(info, 3);
  GST_BUFFER_PTS(buffer) = 5 * GST_SECOND;
  GST_BUFFER_DTS(buffer) = 4 * GST_SECOND;
  GST_BUFFER_DURATION(buffer) = 40 * GST_MSECOND;
  GST_BUFFER_OFFSET(buffer) = 1234;
  GST_BUFFER_OFFSET_END(buffer) = 1235;
  GST_BUFFER_FLAG_SET(buffer, GST_BUFFER_FLAG_MARKER | GST_BUFFER_FLAG_CORRUPTED |
                                  GST_VIDEO_BUFFER_FLAG_TFF | GST_VIDEO_BUFFER_FLAG_INTERLACED);
  pair.push(buffer);
  GstBuffer* got = pair.pull();
  EXPECT_EQ(GST_BUFFER_PTS(got), 5 * GST_SECOND);
  EXPECT_EQ(GST_BUFFER_DTS(got), 4 * GST_SECOND);
  EXPECT_EQ(GST_BUFFER_DURATION(got), 40 * GST_MSECOND);
  EXPECT_EQ(GST_BUFFER_OFFSET(got), 1234u);
  EXPECT_EQ(GST_BUFFER_OFFSET_END(got), 1235u);
  for (const guint flag :
       {static_cast<guint>(GST_BUFFER_FLAG_MARKER), static_cast<guint>(GST_BUFFER_FLAG_CORRUPTED),
        static_cast<guint>(GST_VIDEO_BUFFER_FLAG_TFF),
        static_cast<guint>(GST_VIDEO_BUFFER_FLAG_INTERLACED)})
    EXPECT_TRUE(GST_BUFFER_FLAG_IS_SET(got, flag)) << flag;
  GstEvent* event = gst_pad_get_sticky_event(pair.src->sinkpad, GST_EVENT_SEGMENT, 0);
  const GstSegment* received = nullptr;
  gst_event_parse_segment(event, &received);
  EXPECT_EQ(received->start, 3 * GST_SECOND);
  EXPECT_EQ(received->time, 7 * GST_SECOND);
  EXPECT_EQ(received->rate, 2.0);
  gst_event_unref(event);
  gst_buffer_unref(got);
}

TEST(Elements, ClockModeKeepsTheTimeOfCapture) {
  Pair pair;
  GstVideoInfo info;
  gst_video_info_set_format(&info, GST_VIDEO_FORMAT_GRAY8, 16, 16);
  pair.set_caps(caps_text(info));
  // Both harnesses run on the system clock; their base times differ.
  GstClock* clock = gst_system_clock_obtain();
  for (int i = 0; i < 5; ++i) {
    GstBuffer* buffer = noise(info, 3);
    const GstClockTime now = gst_clock_get_time(clock);
    GST_BUFFER_PTS(buffer) = now - gst_element_get_base_time(element_of(pair.sink));
    pair.push(buffer);
    GstBuffer* got = pair.pull();
    const GstClockTime at = GST_BUFFER_PTS(got) + gst_element_get_base_time(element_of(pair.src));
    EXPECT_LT(ABS(GST_CLOCK_DIFF(now, at)), static_cast<GstClockTimeDiff>(GST_MSECOND));
    gst_buffer_unref(got);
  }
  gst_object_unref(clock);
}

TEST(Elements, MetasTravel) {
  Pair pair;
  GstVideoInfo info;
  gst_video_info_set_format(&info, GST_VIDEO_FORMAT_GRAY8, 64, 64);
  pair.set_caps(caps_text(info));
  static const gchar* tags[] = {nullptr};
  gst_meta_register_custom("CudaIpcTestMeta", tags, nullptr, nullptr, nullptr);
  GstBuffer* buffer = noise(info, 4);
  GstCustomMeta* custom = gst_buffer_add_custom_meta(buffer, "CudaIpcTestMeta");
  gst_structure_set(gst_custom_meta_get_structure(custom), "answer", G_TYPE_INT, 42, "text",
                    G_TYPE_STRING, "a \"b\", c=(d);", nullptr);
  auto* roi = gst_buffer_add_video_region_of_interest_meta(buffer, "face", 1, 2, 30, 40);
  roi->id = 5;
  roi->parent_id = 6;
  gst_video_region_of_interest_meta_add_param(
      roi, gst_structure_new("detection", "confidence", G_TYPE_DOUBLE, 0.75, nullptr));
  GDateTime* jam = g_date_time_new_utc(2026, 3, 4, 0, 0, 0.25);
  GstVideoTimeCode* tc = gst_video_time_code_new(
      30000, 1001, jam, GST_VIDEO_TIME_CODE_FLAGS_DROP_FRAME, 1, 2, 3, 4, 0);
  gst_buffer_add_video_time_code_meta(buffer, tc);
  const guint8 cc[] = {0x96, 0x69, 0, 1, 2, 255};
  gst_buffer_add_video_caption_meta(buffer, GST_VIDEO_CAPTION_TYPE_CEA708_CDP, cc, sizeof(cc));
  auto* crop = gst_buffer_add_video_crop_meta(buffer);
  crop->x = 3;
  crop->y = 4;
  crop->width = 20;
  crop->height = 21;
  GstCaps* reference = gst_caps_from_string("timestamp/x-ntp, host=(string)a");
  gst_buffer_add_reference_timestamp_meta(buffer, reference, 77, 88);
  gst_buffer_add_video_afd_meta(buffer, 1, GST_VIDEO_AFD_SPEC_ATSC_A53,
                                GST_VIDEO_AFD_16_9_TOP_ALIGNED);
  gst_buffer_add_video_bar_meta(buffer, 0, TRUE, 8, 9);
  pair.push(buffer);
  GstBuffer* got = pair.pull();

  GstCustomMeta* custom2 = gst_buffer_get_custom_meta(got, "CudaIpcTestMeta");
  ASSERT_TRUE(custom2);
  int answer = 0;
  GstStructure* fields = gst_custom_meta_get_structure(custom2);
  EXPECT_TRUE(gst_structure_get_int(fields, "answer", &answer));
  EXPECT_EQ(answer, 42);
  EXPECT_STREQ(gst_structure_get_string(fields, "text"), "a \"b\", c=(d);");
  auto* roi2 = reinterpret_cast<GstVideoRegionOfInterestMeta*>(
      gst_buffer_get_meta(got, GST_VIDEO_REGION_OF_INTEREST_META_API_TYPE));
  ASSERT_TRUE(roi2);
  EXPECT_EQ(roi2->roi_type, g_quark_from_string("face"));
  EXPECT_EQ(roi2->id, 5);
  EXPECT_EQ(roi2->parent_id, 6);
  EXPECT_EQ(roi2->w, 30u);
  GstStructure* param = gst_video_region_of_interest_meta_get_param(roi2, "detection");
  double confidence = 0;
  ASSERT_TRUE(param && gst_structure_get_double(param, "confidence", &confidence));
  EXPECT_EQ(confidence, 0.75);
  GstVideoTimeCodeMeta* tc2 = gst_buffer_get_video_time_code_meta(got);
  ASSERT_TRUE(tc2);
  EXPECT_EQ(gst_video_time_code_compare(tc, &tc2->tc), 0);
  EXPECT_EQ(g_date_time_compare(jam, tc2->tc.config.latest_daily_jam), 0);
  GstVideoCaptionMeta* cc2 = gst_buffer_get_video_caption_meta(got);
  ASSERT_TRUE(cc2);
  EXPECT_EQ(std::vector<guint8>(cc2->data, cc2->data + cc2->size),
            std::vector<guint8>(cc, cc + sizeof(cc)));
  GstVideoCropMeta* crop2 = gst_buffer_get_video_crop_meta(got);
  ASSERT_TRUE(crop2);
  EXPECT_EQ(crop2->height, 21u);
  GstReferenceTimestampMeta* ref2 = gst_buffer_get_reference_timestamp_meta(got, reference);
  ASSERT_TRUE(ref2);
  EXPECT_EQ(ref2->timestamp, 77u);
  EXPECT_EQ(ref2->duration, 88u);
  GstVideoAFDMeta* afd = gst_buffer_get_video_afd_meta(got);
  ASSERT_TRUE(afd);
  EXPECT_EQ(afd->afd, GST_VIDEO_AFD_16_9_TOP_ALIGNED);
  GstVideoBarMeta* bar = gst_buffer_get_video_bar_meta(got);
  ASSERT_TRUE(bar);
  EXPECT_EQ(bar->bar_data2, 9u);
  EXPECT_EQ(stat(element_of(pair.sink), "metas-lost"), 0u);
  EXPECT_EQ(stat(element_of(pair.src), "metas-lost"), 0u);

  // One over the limit is counted; the frame still goes.
  GstBuffer* big = noise(info, 5);
  const std::vector<guint8> blob(60000, 1);
  gst_buffer_add_video_caption_meta(big, GST_VIDEO_CAPTION_TYPE_CEA708_RAW, blob.data(),
                                    blob.size());
  pair.push(big);
  gst_buffer_unref(pair.pull());
  EXPECT_EQ(stat(element_of(pair.sink), "metas-lost"), 1u);
  gst_buffer_unref(got);
  gst_caps_unref(reference);
  g_date_time_unref(jam);
  gst_video_time_code_free(tc);
}

TEST(Elements, EosPassesAndTheStreamStartsAgain) {
  Pair pair;
  GstVideoInfo info;
  gst_video_info_set_format(&info, GST_VIDEO_FORMAT_GRAY8, 16, 16);
  pair.set_caps(caps_text(info));
  for (int round = 0; round < 3; ++round) {
    pair.push(noise(info, 1));
    pair.push(noise(info, 2));
    gst_harness_push_event(pair.sink.get(), gst_event_new_eos());
    for (int i = 0; i < 2; ++i) {
      GstBuffer* got = pair.pull();
      ASSERT_TRUE(got);
      EXPECT_EQ(GST_BUFFER_FLAG_IS_SET(got, GST_BUFFER_FLAG_DISCONT), i == 0);
      gst_buffer_unref(got);
    }
    for (bool eos = false; !eos;) {
      GstEvent* event = gst_harness_pull_event(pair.src.get());
      ASSERT_TRUE(event);
      eos = GST_EVENT_TYPE(event) == GST_EVENT_EOS;
      gst_event_unref(event);
    }
    GstState state;
    gst_element_get_state(element_of(pair.sink), &state, nullptr, 0);
    EXPECT_EQ(state, GST_STATE_PLAYING);
    // A stream that starts again flushes first, like a seek.
    gst_harness_push_event(pair.sink.get(), gst_event_new_flush_start());
    gst_harness_push_event(pair.sink.get(), gst_event_new_flush_stop(TRUE));
    GstSegment segment;
    gst_segment_init(&segment, GST_FORMAT_TIME);
    gst_harness_push_event(pair.sink.get(), gst_event_new_segment(&segment));
  }
}

TEST(Elements, FramesAreReadOnlyAndTheirSlotsComeBack) {
  Pair pair("max-buffers=6");
  GstVideoInfo info;
  gst_video_info_set_format(&info, GST_VIDEO_FORMAT_RGBA, 32, 32);
  pair.set_caps(caps_text(info));
  for (unsigned i = 0; i < 50; ++i) {
    GstBuffer* sent = noise(info, i);
    pair.push(gst_buffer_ref(sent));
    GstBuffer* got = pair.pull();
    GstMapInfo map;
    EXPECT_FALSE(gst_memory_map(gst_buffer_peek_memory(got, 0), &map, GST_MAP_WRITE));
    // A writable copy is memory of this process.
    GstMemory* copy = gst_memory_copy(gst_buffer_peek_memory(got, 0), 0, -1);
    ASSERT_TRUE(copy);
    EXPECT_TRUE(gst_is_cuda_memory(copy));
    EXPECT_TRUE(gst_memory_map(copy, &map, GST_MAP_READWRITE));
    gst_memory_unmap(copy, &map);
    gst_memory_unref(copy);
    gst_buffer_unref(sent);
    gst_buffer_unref(got);
  }
  GstStructure* stats = nullptr;
  g_object_get(element_of(pair.sink), "stats", &stats, nullptr);
  guint slots = 0;
  gst_structure_get_uint(stats, "slots-max", &slots);
  gst_structure_free(stats);
  EXPECT_LE(slots, 6u);
}

TEST(Elements, FramesOutliveTheSource) {
  GstBuffer* kept = nullptr;
  GstVideoInfo info;
  gst_video_info_set_format(&info, GST_VIDEO_FORMAT_RGBA, 32, 32);
  GstBuffer* sent = noise(info, 9);
  {
    Pair pair;
    pair.set_caps(caps_text(info));
    pair.push(gst_buffer_ref(sent));
    kept = pair.pull();
  }
  EXPECT_TRUE(same_picture(info, sent, kept));
  gst_buffer_unref(kept);
  gst_buffer_unref(sent);
}

TEST(Elements, DroppedFramesShowAsAGap) {
  Watchdog watchdog;
  TempDir dir;
  const std::string address = dir / "s";
  Harness sink = harness("cudaipcvideosink sync=false max-buffers=4 address=" + address);
  Harness src = harness("cudaipcvideosrc address=" + address);
  gst_harness_play(sink.get());
  gst_harness_play(src.get());
  guint n = 0;
  while (n != 1) {
    g_object_get(sink->element, "num-consumers", &n, nullptr);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  GstVideoInfo info;
  gst_video_info_set_format(&info, GST_VIDEO_FORMAT_GRAY8, 16, 16);
  gst_harness_set_src_caps_str(sink.get(), caps_text(info).c_str());
  // The harness keeps what it gets: after three frames the consumer holds its share.
  for (int i = 0; i < 10; ++i)
    ASSERT_EQ(gst_harness_push(sink.get(), noise(info, 1)), GST_FLOW_OK);
  GstBuffer* first = gst_harness_pull(src.get());
  EXPECT_EQ(GST_BUFFER_OFFSET(first), 1u);
  gst_buffer_unref(first);
  for (int i = 0; i < 2; ++i)
    gst_buffer_unref(gst_harness_pull(src.get()));
  guint64 received = 3;
  GstBuffer* later = nullptr;
  // Released slots are seen by the next push.
  while (!later || GST_BUFFER_OFFSET(later) <= 10) {
    gst_clear_buffer(&later);
    ASSERT_EQ(gst_harness_push(sink.get(), noise(info, 1)), GST_FLOW_OK);
    later = gst_harness_try_pull(src.get());
    received += later != nullptr;
  }
  EXPECT_TRUE(GST_BUFFER_FLAG_IS_SET(later, GST_BUFFER_FLAG_DISCONT));
  gst_buffer_unref(later);
  GstStructure* stats = nullptr;
  g_object_get(sink->element, "stats", &stats, nullptr);
  const GValue* consumers = gst_structure_get_value(stats, "consumers");
  const GstStructure* c = gst_value_get_structure(gst_value_array_get_value(consumers, 0));
  guint64 offered = 0, sent = 0, dropped = 0;
  gst_structure_get(c, "offered", G_TYPE_UINT64, &offered, "sent", G_TYPE_UINT64, &sent, "dropped",
                    G_TYPE_UINT64, &dropped, nullptr);
  gst_structure_free(stats);
  EXPECT_EQ(offered, sent + dropped);
  EXPECT_GE(dropped, 7u);
}

TEST(Elements, NullIsReachedWithin200msFromAnyWait) {
  Watchdog watchdog;
  TempDir dir;
  const auto to_null = [](GstElement* element) {
    const auto start = Clock::now();
    gst_element_set_state(element, GST_STATE_NULL);
    EXPECT_LT(Clock::now() - start, std::chrono::milliseconds(200));
  };
  const auto settle = [] { std::this_thread::sleep_for(std::chrono::milliseconds(50)); };
  {
    Harness waits_for_sink =
        harness("cudaipcvideosrc connection-timeout=-1 address=" + (dir / "nobody"));
    gst_harness_play(waits_for_sink.get());
    settle();
    to_null(waits_for_sink->element);
  }
  {
    Pair waits_for_caps;
    settle();
    to_null(waits_for_caps.src->element);
  }
  {
    // The streaming thread of the sink waits for a consumer.
    GstElement* pipeline = gst_parse_launch(
        ("videotestsrc ! cudaipcvideosink wait-for-consumers=1 address=" + (dir / "w")).c_str(),
        nullptr);
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    settle();
    to_null(pipeline);
    gst_object_unref(pipeline);
  }
  {
    // ... for room: the consumer takes nothing.
    GstElement* pipeline = gst_parse_launch(
        ("videotestsrc ! cudaipcvideosink sync=false slow-consumer=block max-buffers=4 "
         "wait-for-consumers=1 address=" +
         (dir / "b"))
            .c_str(),
        nullptr);
    gst_element_set_state(pipeline, GST_STATE_PLAYING);
    Harness src = harness("cudaipcvideosrc address=" + (dir / "b"));
    gst_harness_play(src.get());
    settle();
    to_null(pipeline);
    gst_object_unref(pipeline);
  }
}

TEST(Elements, PauseAndPlayWhileWaitingLosesNothing) {
  Watchdog watchdog;
  TempDir dir;
  GstElement* pipeline = gst_parse_launch(
      ("videotestsrc num-buffers=40 ! video/x-raw,format=GRAY8,width=16,height=16 ! "
       "cudaipcvideosink sync=false slow-consumer=block max-buffers=4 wait-for-consumers=1 "
       "address=" +
       (dir / "p"))
          .c_str(),
      nullptr);
  gst_element_set_state(pipeline, GST_STATE_PLAYING);
  Harness src = harness("cudaipcvideosrc address=" + (dir / "p"));
  gst_harness_play(src.get());
  for (guint64 i = 0; i < 40; ++i) {
    if (i % 10 == 3) {
      gst_element_set_state(pipeline, GST_STATE_PAUSED);
      gst_element_get_state(pipeline, nullptr, nullptr, GST_CLOCK_TIME_NONE);
      gst_element_set_state(pipeline, GST_STATE_PLAYING);
    }
    GstBuffer* got = gst_harness_pull(src.get());
    ASSERT_TRUE(got);
    EXPECT_EQ(GST_BUFFER_OFFSET(got), i);
    gst_buffer_unref(got);
  }
  gst_element_set_state(pipeline, GST_STATE_NULL);
  gst_object_unref(pipeline);
}

TEST(Elements, ErrorsNameTheAddressAndTheCure) {
  Watchdog watchdog;
  TempDir dir;
  const auto start = [](GstElement* element) {
    return bus_error(element, [&] { gst_element_set_state(element, GST_STATE_PAUSED); });
  };
  const auto expect = [&](const std::string& address, std::vector<std::string> words) {
    GstElement* sink = gst_element_factory_make("cudaipcvideosink", nullptr);
    g_object_set(sink, "address", address.c_str(), nullptr);
    const std::string text = start(sink);
    words.push_back(address.substr(0, 20));
    for (const auto& word : words)
      EXPECT_NE(text.find(word), text.npos) << text;
    gst_element_set_state(sink, GST_STATE_NULL);
    gst_object_unref(sink);
  };
  expect(dir / "missing/s", {"No such file", "does not exist"});
  expect(dir / std::string(120, 'x'), {"107"});
  expect(dir.path() + "/", {"folder"});
  {
    Harness live = harness("cudaipcvideosink address=" + (dir / "live"));
    gst_harness_play(live.get());
    expect(dir / "live", {"taken by a live sink"});
    // The first still serves.
    Harness src = harness("cudaipcvideosrc address=" + (dir / "live"));
    gst_harness_play(src.get());
    guint n = 0;
    while (n != 1) {
      g_object_get(live->element, "num-consumers", &n, nullptr);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  GstElement* bin = gst_parse_launch(
      ("cudaipcvideosrc connection-timeout=0 address=" + (dir / "nobody") + " ! fakesink").c_str(),
      nullptr);
  GstBus* bus = gst_element_get_bus(bin);
  gst_element_set_state(bin, GST_STATE_PLAYING);
  GstMessage* message = gst_bus_timed_pop_filtered(bus, 10 * GST_SECOND, GST_MESSAGE_ERROR);
  ASSERT_TRUE(message);
  GError* error = nullptr;
  gst_message_parse_error(message, &error, nullptr);
  EXPECT_NE(std::string(error->message).find(dir / "nobody"), std::string::npos);
  EXPECT_NE(std::string(error->message).find("start the producer"), std::string::npos);
  g_error_free(error);
  gst_message_unref(message);
  gst_element_set_state(bin, GST_STATE_NULL);
  gst_object_unref(bus);
  gst_object_unref(bin);
}

TEST(Elements, AProducerThatLeavesIsAnErrorNotASilentEos) {
  Watchdog watchdog;
  TempDir dir;
  Harness sink = harness("cudaipcvideosink address=" + (dir / "s"));
  gst_harness_play(sink.get());
  GstElement* bin =
      gst_parse_launch(("cudaipcvideosrc address=" + (dir / "s") + " ! fakesink").c_str(), nullptr);
  GstBus* bus = gst_element_get_bus(bin);
  gst_element_set_state(bin, GST_STATE_PLAYING);
  guint n = 0;
  while (n != 1) {
    g_object_get(sink->element, "num-consumers", &n, nullptr);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  sink.reset();
  GstMessage* message = gst_bus_timed_pop_filtered(
      bus, 10 * GST_SECOND, static_cast<GstMessageType>(GST_MESSAGE_ERROR | GST_MESSAGE_EOS));
  ASSERT_TRUE(message);
  EXPECT_EQ(GST_MESSAGE_TYPE(message), GST_MESSAGE_ERROR);
  gst_message_unref(message);
  gst_element_set_state(bin, GST_STATE_NULL);
  gst_object_unref(bus);
  gst_object_unref(bin);
}

TEST(Elements, AnAllocationThatFailsInMidStreamIsAMessage) {
  Watchdog watchdog;
  TempDir dir;
  using FailNext = void (*)(const char*, uint64_t, int);
  void* device = dlopen("libcuda.so.1", RTLD_NOW);
  const auto fail_next = reinterpret_cast<FailNext>(dlsym(device, "softcuda_fail_next"));
  ASSERT_TRUE(fail_next);
  Harness sink = harness("cudaipcvideosink sync=false ipc-mode=legacy address=" + (dir / "s"));
  gst_harness_play(sink.get());
  GstVideoInfo info;
  gst_video_info_set_format(&info, GST_VIDEO_FORMAT_GRAY8, 16, 16);
  gst_harness_set_src_caps_str(sink.get(), caps_text(info).c_str());
  ASSERT_EQ(gst_harness_push(sink.get(), noise(info, 1)), GST_FLOW_OK);
  // Other caps need another slot.
  gst_video_info_set_format(&info, GST_VIDEO_FORMAT_GRAY8, 32, 16);
  gst_harness_set_src_caps_str(sink.get(), caps_text(info).c_str());
  const std::string text = bus_error(sink->element, [&] {
    fail_next("cuMemAlloc", 1, 2);
    EXPECT_EQ(gst_harness_push(sink.get(), noise(info, 1)), GST_FLOW_ERROR);
  });
  EXPECT_NE(text.find("cuMemAlloc"), text.npos) << text;
  EXPECT_NE(text.find("OUT_OF_MEMORY"), text.npos) << text;
  EXPECT_NE(text.find("max-buffers"), text.npos) << text;
}

TEST(Elements, UriHandler) {
  GError* error = nullptr;
  GstElement* src =
      gst_element_make_from_uri(GST_URI_SRC, "cudaipc:///tmp/a%20b.sock", "x", &error);
  ASSERT_TRUE(src) << error->message;
  gchar* address = nullptr;
  g_object_get(src, "address", &address, nullptr);
  EXPECT_STREQ(address, "/tmp/a b.sock");
  g_free(address);
  EXPECT_TRUE(gst_uri_handler_set_uri(GST_URI_HANDLER(src), "cudaipc://@name", nullptr));
  EXPECT_FALSE(gst_uri_handler_set_uri(GST_URI_HANDLER(src), "cudaipc://relative", &error));
  g_clear_error(&error);
  gst_object_unref(src);
}

TEST(Elements, AbstractAddressAndSeveralSources) {
  Watchdog watchdog;
  const std::string address = "@cudaipc-test-" + std::to_string(getpid());
  Harness sink = harness("cudaipcvideosink sync=false slow-consumer=block address=" + address);
  gst_harness_play(sink.get());
  std::vector<Harness> sources;
  for (int i = 0; i < 4; ++i) {
    sources.push_back(harness("cudaipcvideosrc address=" + address));
    gst_harness_play(sources.back().get());
  }
  guint n = 0;
  while (n != 4) {
    g_object_get(sink->element, "num-consumers", &n, nullptr);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  GstVideoInfo info;
  gst_video_info_set_format(&info, GST_VIDEO_FORMAT_NV12, 64, 48);
  gst_harness_set_src_caps_str(sink.get(), caps_text(info).c_str());
  for (unsigned i = 0; i < 20; ++i) {
    if (i == 10)
      sources.resize(1);  // the others leave: the first goes on
    GstBuffer* sent = noise(info, i);
    ASSERT_EQ(gst_harness_push(sink.get(), gst_buffer_ref(sent)), GST_FLOW_OK);
    for (const Harness& src : sources) {
      GstBuffer* got = gst_harness_pull(src.get());
      EXPECT_TRUE(same_picture(info, sent, got));
      gst_buffer_unref(got);
    }
    gst_buffer_unref(sent);
  }
}

TEST(Elements, LatencyIsLiveAndIncludesTheSinks) {
  Pair pair("", "processing-deadline=5000000");
  const GstClockTime latency = gst_harness_query_latency(pair.src.get());
  EXPECT_EQ(latency, 5 * GST_MSECOND);
}

}  // namespace
}  // namespace cudaipc::test

int main(int argc, char** argv) {
  gst_init(&argc, &argv);
  gst_cuda_load_library();
  gst_cuda_memory_init_once();
  // Linked in, not loaded: GStreamer's plugin scanner cannot load what a sanitizer instrumented.
  for (const char* name : {"cudaipcsink", "cudaipcvideosink"})
    gst_element_register(nullptr, name, GST_RANK_NONE, cudaipc::sink_get_type());
  for (const char* name : {"cudaipcsrc", "cudaipcvideosrc"})
    gst_element_register(nullptr, name, GST_RANK_NONE, cudaipc::src_get_type());
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
