// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// An application that shares a test picture or a video file, and puts a checksum on each frame.
//
//   producer ADDRESS CONSUMERS FRAMES [VIDEO FILE]
//
// Waits for CONSUMERS, then plays FRAMES frames of the test picture, or the whole file.
#include <gst/gst.h>
#include <gst/video/video.h>

#include <cstdio>
#include <cstdlib>

#include "checksum.h"

namespace {

struct Producer {
  guint64 frames = 0;
  GstVideoInfo info;
};

// In front of the sink, still in system memory: the truth that consumers compare with.
GstPadProbeReturn stamp(GstPad* pad, GstPadProbeInfo* info, gpointer data) {
  auto& producer = *static_cast<Producer*>(data);
  GstCaps* caps = gst_pad_get_current_caps(pad);
  gst_video_info_from_caps(&producer.info, caps);
  gst_caps_unref(caps);
  GstBuffer* buffer = gst_buffer_make_writable(GST_PAD_PROBE_INFO_BUFFER(info));
  GST_PAD_PROBE_INFO_DATA(info) = buffer;
  GstVideoFrame frame;
  if (!gst_video_frame_map(&frame, &producer.info, buffer, GST_MAP_READ))
    return GST_PAD_PROBE_OK;
  const std::string sum = example::checksum(frame);
  gst_video_frame_unmap(&frame);
  GstCustomMeta* meta = gst_buffer_add_custom_meta(buffer, example::kMetaName);
  gst_structure_set(gst_custom_meta_get_structure(meta), "sha1", G_TYPE_STRING, sum.c_str(),
                    nullptr);
  GST_BUFFER_OFFSET(buffer) = producer.frames++;
  GST_BUFFER_OFFSET_END(buffer) = producer.frames;
  return GST_PAD_PROBE_OK;
}

GstElement* make_pipeline(const char* address, const char* consumers, const char* frames,
                          const char* file) {
  gchar* source = file ? g_strdup(
                             "filesrc name=file ! decodebin ! videoconvert ! videorate ! "
                             "video/x-raw,format=NV12,framerate=30/1")
                       : g_strdup_printf(
                             "videotestsrc num-buffers=%s pattern=ball ! "
                             "video/x-raw,format=NV12,width=1280,height=720,framerate=60/1",
                             frames);
  gchar* line = g_strdup_printf(
      "%s ! identity name=stamp ! cudaipcvideosink name=sink "
      "slow-consumer=block wait-for-consumers=%s",
      source, consumers);
  GError* error = nullptr;
  GstElement* pipeline = gst_parse_launch(line, &error);
  g_free(line);
  g_free(source);
  if (!pipeline || error) {
    fprintf(stderr, "producer: %s\n", error ? error->message : "no pipeline");
    exit(1);
  }
  GstElement* sink = gst_bin_get_by_name(GST_BIN(pipeline), "sink");
  g_object_set(sink, "address", address, nullptr);
  gst_object_unref(sink);
  if (file) {
    GstElement* source_element = gst_bin_get_by_name(GST_BIN(pipeline), "file");
    g_object_set(source_element, "location", file, nullptr);
    gst_object_unref(source_element);
  }
  return pipeline;
}

// Until the end or an error; true: the end.
bool run(GstElement* pipeline) {
  gst_element_set_state(pipeline, GST_STATE_PLAYING);
  GstBus* bus = gst_element_get_bus(pipeline);
  GstMessage* message = gst_bus_timed_pop_filtered(
      bus, GST_CLOCK_TIME_NONE, static_cast<GstMessageType>(GST_MESSAGE_EOS | GST_MESSAGE_ERROR));
  const bool ended = GST_MESSAGE_TYPE(message) == GST_MESSAGE_EOS;
  if (!ended) {
    GError* error = nullptr;
    gst_message_parse_error(message, &error, nullptr);
    fprintf(stderr, "producer: %s\n", error->message);
    g_error_free(error);
  }
  gst_message_unref(message);
  gst_object_unref(bus);
  return ended;
}

}  // namespace

int main(int argc, char** argv) {
  gst_init(&argc, &argv);
  if (argc < 4) {
    fprintf(stderr, "usage: %s ADDRESS CONSUMERS FRAMES [VIDEO FILE]\n", argv[0]);
    return 2;
  }
  example::register_meta();
  GstElement* pipeline = make_pipeline(argv[1], argv[2], argv[3], argc > 4 ? argv[4] : nullptr);
  Producer producer;
  GstElement* identity = gst_bin_get_by_name(GST_BIN(pipeline), "stamp");
  GstPad* pad = gst_element_get_static_pad(identity, "src");
  gst_pad_add_probe(pad, GST_PAD_PROBE_TYPE_BUFFER, stamp, &producer, nullptr);
  gst_object_unref(pad);
  gst_object_unref(identity);
  const bool ended = run(pipeline);
  gst_element_set_state(pipeline, GST_STATE_NULL);
  gst_object_unref(pipeline);
  printf("frames=%" G_GUINT64_FORMAT "\n", producer.frames);
  return ended ? 0 : 1;
}
