// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// An application that receives shared frames, checks each against its checksum, and saves one.
//
//   consumer ADDRESS [PNG FILE]
//
// Prints one line of results. Exit status 0: every frame that came was bit-exact.
#include <gst/app/gstappsink.h>
#include <gst/gst.h>
#include <gst/video/video.h>

#include <cstdio>

#include "checksum.h"

namespace {

struct Consumer {
  guint64 received = 0, exact = 0, lost = 0, next = 0;
  GstSample* picture = nullptr;
};

std::string expected(GstBuffer* buffer) {
  GstCustomMeta* meta = gst_buffer_get_custom_meta(buffer, example::kMetaName);
  const gchar* sum =
      meta ? gst_structure_get_string(gst_custom_meta_get_structure(meta), "sha1") : nullptr;
  return sum ? sum : "";
}

void take(Consumer& consumer, GstSample* sample) {
  GstBuffer* buffer = gst_sample_get_buffer(sample);
  GstVideoInfo info;
  GstVideoFrame frame;
  gst_video_info_from_caps(&info, gst_sample_get_caps(sample));
  const guint64 number = GST_BUFFER_OFFSET(buffer);
  if (consumer.received && number > consumer.next)
    consumer.lost += number - consumer.next;
  consumer.next = number + 1;
  ++consumer.received;
  // The frame is in GPU memory; mapping it for the CPU downloads it.
  if (gst_video_frame_map(&frame, &info, buffer, GST_MAP_READ)) {
    consumer.exact += example::checksum(frame) == expected(buffer);
    gst_video_frame_unmap(&frame);
  }
  // One from the middle of the stream is worth looking at; frames go back soon, so a copy.
  if (consumer.received == 40 || !consumer.picture) {
    GstBuffer* copy = gst_buffer_new_allocate(nullptr, GST_VIDEO_INFO_SIZE(&info), nullptr);
    GstVideoFrame from, to;
    if (gst_video_frame_map(&from, &info, buffer, GST_MAP_READ)) {
      if (gst_video_frame_map(&to, &info, copy, GST_MAP_WRITE)) {
        gst_video_frame_copy(&to, &from);
        gst_video_frame_unmap(&to);
      }
      gst_video_frame_unmap(&from);
    }
    GstCaps* caps = gst_video_info_to_caps(&info);
    g_clear_pointer(&consumer.picture, gst_sample_unref);
    consumer.picture = gst_sample_new(copy, caps, nullptr, nullptr);
    gst_caps_unref(caps);
    gst_buffer_unref(copy);
  }
}

bool save(GstSample* sample, const char* file) {
  GstCaps* png = gst_caps_new_empty_simple("image/png");
  GError* error = nullptr;
  GstSample* image = gst_video_convert_sample(sample, png, 10 * GST_SECOND, &error);
  gst_caps_unref(png);
  GstMapInfo map;
  bool saved = false;
  if (image && gst_buffer_map(gst_sample_get_buffer(image), &map, GST_MAP_READ)) {
    saved = g_file_set_contents(file, reinterpret_cast<const gchar*>(map.data),
                                static_cast<gssize>(map.size), &error);
    gst_buffer_unmap(gst_sample_get_buffer(image), &map);
  }
  if (error) {
    fprintf(stderr, "consumer: %s\n", error->message);
    g_error_free(error);
  }
  g_clear_pointer(&image, gst_sample_unref);
  return saved;
}

bool failed(GstElement* pipeline) {
  GstBus* bus = gst_element_get_bus(pipeline);
  GstMessage* message = gst_bus_pop_filtered(bus, GST_MESSAGE_ERROR);
  gst_object_unref(bus);
  if (!message)
    return false;
  GError* error = nullptr;
  gst_message_parse_error(message, &error, nullptr);
  fprintf(stderr, "consumer: %s\n", error->message);
  g_error_free(error);
  gst_message_unref(message);
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  gst_init(&argc, &argv);
  if (argc < 2) {
    fprintf(stderr, "usage: %s ADDRESS [PNG FILE]\n", argv[0]);
    return 2;
  }
  example::register_meta();
  GError* error = nullptr;
  // An application that computes on the GPU maps with GST_MAP_CUDA and gets a device pointer.
  GstElement* pipeline = gst_parse_launch(
      "cudaipcvideosrc name=src connection-timeout=20 ! "
      "video/x-raw(memory:CUDAMemory) ! appsink name=sink sync=false max-buffers=2 "
      "enable-last-sample=false",
      &error);
  if (!pipeline || error) {
    fprintf(stderr, "consumer: %s\n", error ? error->message : "no pipeline");
    return 1;
  }
  GstElement* src = gst_bin_get_by_name(GST_BIN(pipeline), "src");
  GstElement* sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");
  g_object_set(src, "address", argv[1], nullptr);
  gst_element_set_state(pipeline, GST_STATE_PLAYING);
  Consumer consumer;
  bool good = true;
  while (good && !gst_app_sink_is_eos(GST_APP_SINK(sink))) {
    if (GstSample* sample = gst_app_sink_try_pull_sample(GST_APP_SINK(sink), GST_SECOND / 10)) {
      take(consumer, sample);
      gst_sample_unref(sample);
    } else {
      good = !failed(pipeline);
    }
  }
  GstStructure* stats = nullptr;
  g_object_get(src, "stats", &stats, nullptr);
  guint64 mean = 0, max = 0;
  gst_structure_get(stats, "latency-mean-us", G_TYPE_UINT64, &mean, "latency-max-us", G_TYPE_UINT64,
                    &max, nullptr);
  printf("received=%" G_GUINT64_FORMAT " lost=%" G_GUINT64_FORMAT " exact=%" G_GUINT64_FORMAT
         " latency_mean_us=%" G_GUINT64_FORMAT " latency_max_us=%" G_GUINT64_FORMAT
         " ipc-mode=%s sync-mode=%s\n",
         consumer.received, consumer.lost, consumer.exact, mean, max,
         gst_structure_get_string(stats, "ipc-mode"), gst_structure_get_string(stats, "sync-mode"));
  gst_structure_free(stats);
  bool saved = true;
  if (argc > 2 && consumer.picture)
    saved = save(consumer.picture, argv[2]);
  g_clear_pointer(&consumer.picture, gst_sample_unref);
  gst_element_set_state(pipeline, GST_STATE_NULL);
  gst_object_unref(src);
  gst_object_unref(sink);
  gst_object_unref(pipeline);
  return good && saved && consumer.received > 0 && consumer.exact == consumer.received ? 0 : 1;
}
