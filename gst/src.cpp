// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// cudaipcsrc: importer to buffers, caps, time, latency, EOS.

/**
 * SECTION:element-cudaipcsrc
 * @title: cudaipcsrc
 *
 * Receives video frames from a cudaipcsink in another process (or this one), in GPU memory and
 * without a copy. Frames are read-only: an element that works in place copies first. Downstream
 * that cannot take CUDA memory gets system memory.
 *
 * |[
 * gst-launch-1.0 cudaipcsrc address=/tmp/cam.sock ! cudadownload ! videoconvert ! autovideosink
 * gst-launch-1.0 cudaipcsrc address=/tmp/cam.sock ! videoconvert ! autovideosink
 * ]|
 *
 * It may be started before the sink. A frame that the sink dropped shows as a gap in the offsets,
 * and the buffer after it carries DISCONT.
 *
 * Since: 0.1
 */

#include <gst/base/gstbasesrc.h>
#include <gst/cuda/gstcudamemory.h>

#include <cmath>

#include "gst/base/clock.h"
#include "gst/elements.h"
#include "gst/layout.h"
#include "gst/memory.h"
#include "gst/metas.h"
#include "gst/share/importer.h"

GST_DEBUG_CATEGORY_STATIC(cudaipcsrc_debug);
#define GST_CAT_DEFAULT cudaipcsrc_debug

namespace cudaipc {
namespace {

using std::chrono::steady_clock;

constexpr GstClockTime kDefaultDeadline = 15 * GST_MSECOND;
constexpr gint kDefaultTimeout = 5;

enum class IoMode { Import, Copy };
enum class TimestampMode { Clock, Original, Arrival };

GType io_mode_get_type() {
  static const GEnumValue values[] = {
      {static_cast<int>(IoMode::Import), "buffers are the sink's memory: no copy", "import"},
      {static_cast<int>(IoMode::Copy),
       "each frame is copied on the GPU, its slot given back at once", "copy"},
      {0, nullptr, nullptr}};
  static const GType type = g_enum_register_static("CudaIpcVideoIoMode", values);
  return type;
}

GType timestamp_mode_get_type() {
  static const GEnumValue values[] = {
      {static_cast<int>(TimestampMode::Clock),
       "time of capture in this pipeline's clock, across pipelines", "clock"},
      {static_cast<int>(TimestampMode::Original), "as they were, with the sink's segment",
       "original"},
      {static_cast<int>(TimestampMode::Arrival), "running time of arrival", "arrival"},
      {0, nullptr, nullptr}};
  static const GType type = g_enum_register_static("CudaIpcVideoTimestampMode", values);
  return type;
}

struct Settings {
  std::string address;  // empty: the default
  int device = -1;
  IoMode io_mode = IoMode::Import;
  gint timeout = kDefaultTimeout;  // seconds, -1: for ever
  TimestampMode timestamp_mode = TimestampMode::Clock;
  GstClockTime deadline = kDefaultDeadline;
};

// The slot of the sink behind a buffer, given back with the buffer's memory.
class FrameOwner : public MemoryOwner {
 public:
  explicit FrameOwner(ImportedFrame frame) : frame_(std::move(frame)) {}
  ~FrameOwner() override { frame_.release(stream); }
  CUstream stream = CU_STREAM_LEGACY;

 private:
  ImportedFrame frame_;
};

// Memory of this process that a frame was copied to.
class CopyOwner : public MemoryOwner {
 public:
  CopyOwner(ContextPtr context, CUdeviceptr pointer)
      : context_(std::move(context)), pointer_(pointer) {}
  ~CopyOwner() override {
    ScopedContext scoped(*context_);
    cu().mem_free(pointer_);
  }

 private:
  const ContextPtr context_;
  const CUdeviceptr pointer_;
};

// What exists from start() to stop(); the streaming thread's, but for the importer's cancel().
struct Running {
  Settings settings;
  std::unique_ptr<Importer> importer;
  std::optional<Address> address;
  std::optional<Stream> stream;  // for copies and downloads
  ContextPtr context;
  GstVideoInfo info;  // of the current caps
  bool have_caps = false;
  uint32_t caps_serial = 0;
  bool to_system = false;  // downstream takes system memory only
  bool discont = true;
  bool at_eos = false;  // EOS went downstream, the sink is still there
  uint64_t next_offset = 0;
};

struct Counters {
  std::atomic<uint64_t> delivered{0};
  std::atomic<uint64_t> copied{0};
  std::atomic<uint64_t> downloaded{0};
  std::atomic<uint64_t> metas_lost{0};
  std::atomic<uint64_t> latency_sum_us{0};
  std::atomic<uint64_t> latency_max_us{0};
};

struct SrcState {
  Mutex mutex;
  Settings settings GUARDED_BY(mutex);
  SharedContext context;
  GstClockTime sink_latency GUARDED_BY(mutex) = 0;
  ImporterStats last_stats GUARDED_BY(mutex);
  std::shared_ptr<Running> running GUARDED_BY(mutex);
  Counters counters;
};

struct CudaIpcVideoSrc {
  GstBaseSrc parent;
  SrcState* state;
};
struct CudaIpcVideoSrcClass {
  GstBaseSrcClass parent_class;
};

void uri_handler_init(gpointer iface, gpointer);
G_DEFINE_TYPE_WITH_CODE(CudaIpcVideoSrc, cudaipc_video_src, GST_TYPE_BASE_SRC,
                        G_IMPLEMENT_INTERFACE(GST_TYPE_URI_HANDLER, uri_handler_init))

SrcState& state_of(gpointer src) {
  return *static_cast<CudaIpcVideoSrc*>(src)->state;
}

std::shared_ptr<Running> running_of(gpointer src) {
  SrcState& state = state_of(src);
  MutexLock lock(state.mutex);
  return state.running;
}

enum Property {
  PROP_0,
  PROP_ADDRESS,
  PROP_DEVICE,
  PROP_IO_MODE,
  PROP_TIMEOUT,
  PROP_TIMESTAMP_MODE,
  PROP_DEADLINE,
  PROP_STATS,
};

// --- Properties

void set_property(GObject* object, guint id, const GValue* value, GParamSpec* spec) {
  SrcState& state = state_of(object);
  MutexLock lock(state.mutex);
  Settings& s = state.settings;
  switch (id) {
    case PROP_ADDRESS: {
      const gchar* address = g_value_get_string(value);
      s.address = address ? address : "";
      break;
    }
    case PROP_DEVICE:
      s.device = g_value_get_int(value);
      break;
    case PROP_IO_MODE:
      s.io_mode = static_cast<IoMode>(g_value_get_enum(value));
      break;
    case PROP_TIMEOUT:
      s.timeout = g_value_get_int(value);
      break;
    case PROP_TIMESTAMP_MODE:
      s.timestamp_mode = static_cast<TimestampMode>(g_value_get_enum(value));
      break;
    case PROP_DEADLINE:
      s.deadline = g_value_get_uint64(value);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, spec);
  }
}

GstStructure* stats(SrcState& state) {
  ImporterStats i;
  bool connected = false;
  {
    MutexLock lock(state.mutex);
    i = state.running ? state.running->importer->stats() : state.last_stats;
    connected = state.running && state.running->context;
  }
  const Counters& c = state.counters;
  const uint64_t delivered = c.delivered.load();
  return gst_structure_new(
      "cudaipcsrc-stats", "received", G_TYPE_UINT64, i.frames, "delivered", G_TYPE_UINT64,
      delivered, "lost", G_TYPE_UINT64, i.lost, "abandoned", G_TYPE_UINT64, i.abandoned, "copied",
      G_TYPE_UINT64, c.copied.load(), "downloaded", G_TYPE_UINT64, c.downloaded.load(),
      "metas-lost", G_TYPE_UINT64, c.metas_lost.load(), "latency-mean-us", G_TYPE_UINT64,
      delivered ? c.latency_sum_us.load() / delivered : 0, "latency-max-us", G_TYPE_UINT64,
      c.latency_max_us.load(), "ipc-mode", G_TYPE_STRING, connected ? name_of(i.ipc_mode) : "none",
      "sync-mode", G_TYPE_STRING, connected ? name_of(i.sync_mode) : "none", "local",
      G_TYPE_BOOLEAN, i.local, nullptr);
}

void get_property(GObject* object, guint id, GValue* value, GParamSpec* spec) {
  SrcState& state = state_of(object);
  if (id == PROP_STATS) {
    g_value_take_boxed(value, stats(state));
    return;
  }
  MutexLock lock(state.mutex);
  const Settings& s = state.settings;
  switch (id) {
    case PROP_ADDRESS:
      g_value_set_string(value,
                         s.address.empty() ? Address::default_text().c_str() : s.address.c_str());
      break;
    case PROP_DEVICE:
      g_value_set_int(value, s.device);
      break;
    case PROP_IO_MODE:
      g_value_set_enum(value, static_cast<int>(s.io_mode));
      break;
    case PROP_TIMEOUT:
      g_value_set_int(value, s.timeout);
      break;
    case PROP_TIMESTAMP_MODE:
      g_value_set_enum(value, static_cast<int>(s.timestamp_mode));
      break;
    case PROP_DEADLINE:
      g_value_set_uint64(value, s.deadline);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, spec);
  }
}

// --- URI: cudaipc:///path/to/socket, cudaipc://@name

constexpr const gchar* kScheme = "cudaipc";

const gchar* const* uri_protocols(GType) {
  static const gchar* protocols[] = {kScheme, nullptr};
  return protocols;
}

gchar* get_uri(GstURIHandler* handler) {
  SrcState& state = state_of(handler);
  MutexLock lock(state.mutex);
  const std::string address =
      state.settings.address.empty() ? Address::default_text() : state.settings.address;
  const Text escaped(g_uri_escape_string(address.c_str(), "/@", FALSE));
  return g_strdup_printf("%s://%s", kScheme, escaped.get());
}

gboolean set_uri(GstURIHandler* handler, const gchar* uri, GError** error) {
  const std::string prefix = std::string(kScheme) + "://";
  const Text rest(g_str_has_prefix(uri, prefix.c_str())
                      ? g_uri_unescape_string(uri + prefix.size(), nullptr)
                      : nullptr);
  if (!rest || (rest.get()[0] != '/' && rest.get()[0] != '@')) {
    g_set_error(error, GST_URI_ERROR, GST_URI_ERROR_BAD_URI,
                "'%s' is not of the form cudaipc:///path/to/socket or cudaipc://@name", uri);
    return FALSE;
  }
  if (running_of(handler)) {
    g_set_error(error, GST_URI_ERROR, GST_URI_ERROR_BAD_STATE,
                "the URI cannot change while the source runs");
    return FALSE;
  }
  SrcState& state = state_of(handler);
  MutexLock lock(state.mutex);
  state.settings.address = rest.get();
  return TRUE;
}

void uri_handler_init(gpointer iface, gpointer) {
  auto* handler = static_cast<GstURIHandlerInterface*>(iface);
  handler->get_type = [](GType) { return GST_URI_SRC; };
  handler->get_protocols = uri_protocols;
  handler->get_uri = get_uri;
  handler->set_uri = set_uri;
}

// --- Start and stop

// On the streaming thread, while connecting.
Result<ContextPtr> make_context(CudaIpcVideoSrc* src, int wanted, const Uuid& uuid,
                                const ContextPtr& local) {
  SrcState& state = state_of(src);
  if (local) {
    // The sink's own context: its memory is at home there.
    state.context.replace(gst_context(local));
    return local;
  }
  auto device = find_device(uuid);
  if (!device)
    return std::move(device.error());
  if (wanted >= 0 && wanted != device->ordinal)
    return Error{
        Fault::Unsupported, 0,
        "the sink's device " + to_string(uuid) + " is number " + std::to_string(device->ordinal) +
            " here, not cuda-device-id=" + std::to_string(wanted) + ": leave cuda-device-id at -1"};
  return state.context.ensure(GST_ELEMENT(src), device->ordinal);
}

Result<std::shared_ptr<Running>> start_running(CudaIpcVideoSrc* src, const Settings& settings) {
  auto driver = load_driver();
  if (!driver)
    return std::move(driver.error());
  auto running = std::make_shared<Running>();
  running->settings = settings;
  auto address = resolve_address(settings.address.empty() ? nullptr : settings.address.c_str());
  if (!address)
    return std::move(address.error());
  running->address.emplace(std::move(*address));
  auto importer =
      Importer::create([src, device = settings.device](const Uuid& uuid, const ContextPtr& local) {
        return make_context(src, device, uuid, local);
      });
  if (!importer)
    return std::move(importer.error());
  running->importer = std::move(*importer);
  return running;
}

gboolean start(GstBaseSrc* base) {
  auto* src = reinterpret_cast<CudaIpcVideoSrc*>(base);
  SrcState& state = state_of(src);
  Settings settings;
  {
    MutexLock lock(state.mutex);
    settings = state.settings;
  }
  auto running = start_running(src, settings);
  if (!running) {
    post_error(src, "start", running.error());
    return FALSE;
  }
  state.counters.delivered = 0;
  state.counters.copied = 0;
  state.counters.downloaded = 0;
  state.counters.metas_lost = 0;
  state.counters.latency_sum_us = 0;
  state.counters.latency_max_us = 0;
  MutexLock lock(state.mutex);
  state.running = std::move(*running);
  state.sink_latency = 0;
  return TRUE;
}

gboolean stop(GstBaseSrc* base) {
  SrcState& state = state_of(base);
  GstStructure* summary = stats(state);
  GST_INFO_OBJECT(base, "%" GST_PTR_FORMAT, summary);
  gst_structure_free(summary);
  std::shared_ptr<Running> running;
  {
    MutexLock lock(state.mutex);
    running = std::move(state.running);
    if (running)
      state.last_stats = running->importer->stats();
  }
  return TRUE;
}

gboolean unlock(GstBaseSrc* base) {
  if (auto running = running_of(base))
    running->importer->cancel(true);
  return TRUE;
}

gboolean unlock_stop(GstBaseSrc* base) {
  if (auto running = running_of(base))
    running->importer->cancel(false);
  return TRUE;
}

// --- What the sink says

bool takes_cuda_memory(GstBaseSrc* base, GstCaps* caps) {
  GstCaps* wanted = gst_caps_copy(caps);
  gst_caps_set_features(wanted, 0,
                        gst_caps_features_new(GST_CAPS_FEATURE_MEMORY_CUDA_MEMORY, nullptr));
  GstCaps* peer = gst_pad_peer_query_caps(GST_BASE_SRC_PAD(base), wanted);
  // An unlinked or sticky-less peer answers with everything.
  const bool takes = !peer || gst_caps_can_intersect(peer, wanted);
  g_clear_pointer(&peer, gst_caps_unref);
  gst_caps_unref(wanted);
  return takes;
}

GstFlowReturn on_caps(GstBaseSrc* base, Running& running, const wire::Caps& message) {
  GstCaps* caps = gst_caps_from_string(std::string(message.text).c_str());
  GstVideoInfo info;
  if (!caps || !gst_caps_is_fixed(caps) || gst_caps_get_size(caps) != 1 ||
      !gst_video_info_from_caps(&info, caps)) {
    g_clear_pointer(&caps, gst_caps_unref);
    GST_ELEMENT_ERROR(
        base, STREAM, FORMAT,
        ("The sink at '%s' announced caps that are no video.", running.address->text().c_str()),
        ("%.*s", static_cast<int>(message.text.size()), message.text.data()));
    return GST_FLOW_ERROR;
  }
  running.to_system = !takes_cuda_memory(base, caps);
  if (!running.to_system)
    gst_caps_set_features(caps, 0,
                          gst_caps_features_new(GST_CAPS_FEATURE_MEMORY_CUDA_MEMORY, nullptr));
  GST_INFO_OBJECT(base, "caps %" GST_PTR_FORMAT, caps);
  const gboolean set = gst_base_src_set_caps(base, caps);
  if (!set && !GST_PAD_IS_FLUSHING(GST_BASE_SRC_PAD(base)))
    GST_ELEMENT_ERROR(base, STREAM, FORMAT, ("Downstream does not take the sink's caps."),
                      ("%" GST_PTR_FORMAT, caps));
  gst_caps_unref(caps);
  running.info = info;
  running.caps_serial = message.serial;
  running.have_caps = true;
  return set ? GST_FLOW_OK : GST_FLOW_NOT_NEGOTIATED;
}

void on_segment(GstBaseSrc* base, const Running& running, const wire::Segment& message) {
  // Otherwise times are this pipeline's own.
  if (running.settings.timestamp_mode != TimestampMode::Original)
    return;
  GstSegment segment;
  gst_segment_init(&segment, GST_FORMAT_TIME);
  if (message.format != GST_FORMAT_TIME || message.rate == 0.0 || message.applied_rate == 0.0 ||
      !std::isfinite(message.rate) || !std::isfinite(message.applied_rate))
    return;
  segment.flags = static_cast<GstSegmentFlags>(message.flags);
  segment.rate = message.rate;
  segment.applied_rate = message.applied_rate;
  segment.base = message.base;
  segment.offset = message.offset;
  segment.start = message.start;
  segment.stop = message.stop;
  segment.time = message.time;
  segment.position = message.position;
  segment.duration = message.duration;
  gst_base_src_new_segment(base, &segment);
}

void on_event(GstBaseSrc* base, const wire::Event& message) {
  const std::string text(message.text);
  GstEvent* event = nullptr;
  switch (message.kind) {
    case wire::EventKind::Gap:
      // Its time is in the sink's segment; the frame numbers show gaps in any segment.
      break;
    case wire::EventKind::Tag:
      if (GstTagList* tags = gst_tag_list_new_from_string(text.c_str()))
        event = gst_event_new_tag(tags);
      break;
    case wire::EventKind::Custom:
      if (GstStructure* structure = gst_structure_from_string(text.c_str(), nullptr))
        event = gst_event_new_custom(GST_EVENT_CUSTOM_DOWNSTREAM, structure);
      break;
  }
  if (event)
    gst_pad_push_event(GST_BASE_SRC_PAD(base), event);
}

void on_latency(GstBaseSrc* base, const wire::Latency& message) {
  SrcState& state = state_of(base);
  {
    MutexLock lock(state.mutex);
    if (state.sink_latency == message.latency_ns)
      return;
    state.sink_latency = message.latency_ns;
  }
  gst_element_post_message(GST_ELEMENT(base), gst_message_new_latency(GST_OBJECT(base)));
}

// --- Frames

GstClockTime running_now(GstBaseSrc* base) {
  GstClock* clock = gst_element_get_clock(GST_ELEMENT(base));
  if (!clock)
    return GST_CLOCK_TIME_NONE;
  const GstClockTime now = gst_clock_get_time(clock);
  gst_object_unref(clock);
  const GstClockTime base_time = gst_element_get_base_time(GST_ELEMENT(base));
  return now > base_time ? now - base_time : 0;
}

// The time of capture as running time of this pipeline. Both sides read CLOCK_MONOTONIC.
GstClockTime captured_at(GstBaseSrc* base, const wire::Frame& frame) {
  const GstClockTime now = running_now(base);
  if (!GST_CLOCK_TIME_IS_VALID(now) || frame.capture_ns == wire::kNone)
    return now;
  const auto age = static_cast<int64_t>(monotonic_ns()) - static_cast<int64_t>(frame.capture_ns);
  const int64_t at = static_cast<int64_t>(now) - age;
  // Captured before this pipeline ran: the arrival is the earliest time it can be shown.
  return at >= 0 ? static_cast<GstClockTime>(at) : now;
}

void set_times(GstBaseSrc* base, Running& running, const wire::Frame& frame, GstBuffer* buffer) {
  GST_BUFFER_DURATION(buffer) = frame.duration;
  switch (running.settings.timestamp_mode) {
    case TimestampMode::Original:
      GST_BUFFER_PTS(buffer) = frame.pts;
      GST_BUFFER_DTS(buffer) = frame.dts;
      break;
    case TimestampMode::Clock: {
      GST_BUFFER_PTS(buffer) = captured_at(base, frame);
      // As far before the PTS as it was.
      if (frame.pts != wire::kNone && frame.dts != wire::kNone && frame.dts <= frame.pts &&
          frame.pts - frame.dts <= GST_BUFFER_PTS(buffer))
        GST_BUFFER_DTS(buffer) = GST_BUFFER_PTS(buffer) - (frame.pts - frame.dts);
      break;
    }
    case TimestampMode::Arrival:
      GST_BUFFER_PTS(buffer) = running_now(base);
      break;
  }
  // Flags that mean something to others; DISCONT is ours to decide.
  constexpr guint kKept = GST_BUFFER_FLAG_LIVE | GST_BUFFER_FLAG_RESYNC |
                          GST_BUFFER_FLAG_CORRUPTED | GST_BUFFER_FLAG_MARKER |
                          GST_BUFFER_FLAG_HEADER | GST_BUFFER_FLAG_GAP | GST_BUFFER_FLAG_DROPPABLE |
                          GST_BUFFER_FLAG_DELTA_UNIT | GST_BUFFER_FLAG_DECODE_ONLY |
                          GST_BUFFER_FLAG_NON_DROPPABLE;
  constexpr guint kVideo = ~((static_cast<guint>(GST_BUFFER_FLAG_LAST)) - 1);
  GST_BUFFER_FLAG_SET(buffer, frame.flags & (kKept | kVideo));
  // The producer's own numbering, or ours where it has none: either shows a gap.
  const bool numbered = frame.offset != wire::kNone;
  GST_BUFFER_OFFSET(buffer) = numbered ? frame.offset : frame.seq;
  GST_BUFFER_OFFSET_END(buffer) = numbered ? frame.offset_end : frame.seq + 1;
  const bool lost = frame.seq != running.next_offset;
  if (running.discont || lost || (frame.flags & GST_BUFFER_FLAG_DISCONT))
    GST_BUFFER_FLAG_SET(buffer, GST_BUFFER_FLAG_DISCONT);
  running.discont = false;
  running.next_offset = frame.seq + 1;
}

void add_video_meta(GstBuffer* buffer, GstVideoInfo info, guint32 flags) {
  guint frame_flags = GST_VIDEO_FRAME_FLAG_NONE;
  if (flags & GST_VIDEO_BUFFER_FLAG_INTERLACED)
    frame_flags |= GST_VIDEO_FRAME_FLAG_INTERLACED;
  if (flags & GST_VIDEO_BUFFER_FLAG_TFF)
    frame_flags |= GST_VIDEO_FRAME_FLAG_TFF;
  gst_buffer_add_video_meta_full(buffer, static_cast<GstVideoFrameFlags>(frame_flags),
                                 GST_VIDEO_INFO_FORMAT(&info), GST_VIDEO_INFO_WIDTH(&info),
                                 GST_VIDEO_INFO_HEIGHT(&info), GST_VIDEO_INFO_N_PLANES(&info),
                                 info.offset, info.stride);
}

Result<void> ensure_stream(Running& running) {
  if (running.stream)
    return {};
  auto stream = Stream::create(running.context);
  if (!stream)
    return std::move(stream.error());
  running.stream.emplace(std::move(*stream));
  return {};
}

// The frame in system memory; its slot goes back at once.
Result<GstBuffer*> download(Running& running, ImportedFrame& frame, const GstVideoInfo& placed) {
  TRY(ensure_stream(running));
  GstBuffer* buffer = gst_buffer_new_allocate(nullptr, GST_VIDEO_INFO_SIZE(&running.info), nullptr);
  GstMapInfo map;
  if (!buffer || !gst_buffer_map(buffer, &map, GST_MAP_WRITE)) {
    gst_clear_buffer(&buffer);
    return Error{Fault::Exhausted, 0, "no system memory for a frame"};
  }
  const Planes from = planes_at(placed, frame.pointer(), CU_MEMORYTYPE_DEVICE);
  const Planes to =
      planes_at(running.info, reinterpret_cast<uintptr_t>(map.data), CU_MEMORYTYPE_HOST);
  Result<void> copied;
  CUresult code;
  {
    ScopedContext scoped(*running.context);
    copied = copy_planes(placed, from, to, running.stream->get());
    code = cu().stream_synchronize(running.stream->get());
  }
  gst_buffer_unmap(buffer, &map);
  frame.release(running.stream->get());
  if (copied && code == CUDA_SUCCESS)
    return buffer;
  gst_buffer_unref(buffer);
  return copied ? cuda_error("stream_synchronize", code) : std::move(copied.error());
}

// The frame in CUDA memory of this process; its slot goes back when the GPU has copied.
Result<GstBuffer*> copy(Running& running, ImportedFrame& frame, const GstVideoInfo& placed) {
  TRY(ensure_stream(running));
  CUdeviceptr pointer = 0;
  std::unique_ptr<CopyOwner> owner;
  Result<void> copied;
  CUresult code;
  {
    ScopedContext scoped(*running.context);
    TRY_CU(mem_alloc, &pointer, GST_VIDEO_INFO_SIZE(&placed));
    owner = std::make_unique<CopyOwner>(running.context, pointer);
    copied = copy_planes(placed, planes_at(placed, frame.pointer(), CU_MEMORYTYPE_DEVICE),
                         planes_at(placed, pointer, CU_MEMORYTYPE_DEVICE), running.stream->get());
    // Elements of GStreamer 1.22 use streams that know nothing of this one.
    code = cu().stream_synchronize(running.stream->get());
  }
  frame.release(running.stream->get());
  if (!copied)
    return std::move(copied.error());
  if (code != CUDA_SUCCESS)
    return cuda_error("stream_synchronize", code);
  GstBuffer* buffer = gst_buffer_new();
  gst_buffer_append_memory(buffer,
                           wrap_memory(running.context, placed, pointer, false, std::move(owner)));
  return buffer;
}

Result<GstBuffer*> to_buffer(SrcState& state, Running& running, ImportedFrame frame) {
  GstVideoInfo placed = running.info;
  if (!adopt(placed, frame.layout()))
    return Error{Fault::Protocol, 0, "the slot's planes do not hold frames of the announced caps"};
  const wire::Frame info = frame.info();
  Result<GstBuffer*> buffer = static_cast<GstBuffer*>(nullptr);
  if (running.to_system) {
    ++state.counters.downloaded;
    buffer = download(running, frame, placed);
    placed = running.info;
  } else if (running.settings.io_mode == IoMode::Copy) {
    ++state.counters.copied;
    buffer = copy(running, frame, placed);
  } else {
    const CUdeviceptr pointer = frame.pointer();
    *buffer = gst_buffer_new();
    gst_buffer_append_memory(*buffer, wrap_memory(running.context, placed, pointer, true,
                                                  std::make_unique<FrameOwner>(std::move(frame))));
  }
  if (!buffer)
    return buffer;
  add_video_meta(*buffer, placed, info.flags);
  state.counters.metas_lost += add_metas(*buffer, info.metas);
  return buffer;
}

void count(SrcState& state, const wire::Frame& frame) {
  const uint64_t us = (monotonic_ns() - frame.sent_ns) / 1000;
  ++state.counters.delivered;
  state.counters.latency_sum_us += us;
  if (us > state.counters.latency_max_us.load())
    state.counters.latency_max_us = us;
}

// After EOS the pipeline downstream has ended; a flush opens it again.
void restart_after_eos(GstBaseSrc* base, Running& running) {
  GstPad* pad = GST_BASE_SRC_PAD(base);
  gst_pad_push_event(pad, gst_event_new_flush_start());
  gst_pad_push_event(pad, gst_event_new_flush_stop(FALSE));
  GstSegment segment = base->segment;
  gst_base_src_new_segment(base, &segment);
  running.at_eos = false;
  running.discont = true;
}

Result<void> connect(CudaIpcVideoSrc* src, Running& running) {
  const auto deadline = running.settings.timeout < 0
                            ? steady_clock::time_point::max()
                            : steady_clock::now() + std::chrono::seconds(running.settings.timeout);
  TRY(running.importer->connect(*running.address, deadline));
  MutexLock lock(state_of(src).mutex);
  running.context = running.importer->context();
  return {};
}

GstFlowReturn fail(GstBaseSrc* base, Running& running, const char* doing, Error error) {
  if (error.fault == Fault::Cancelled)
    return GST_FLOW_FLUSHING;
  // The sink ended its stream and left: nothing was cut off.
  if (error.fault == Fault::Closed && running.at_eos)
    return GST_FLOW_EOS;
  post_error(base, doing, std::move(error).with("address '" + running.address->text() + "'"));
  return GST_FLOW_ERROR;
}

// Handles everything up to the next frame.
GstFlowReturn next_frame(GstBaseSrc* base, Running& running, std::optional<ImportedFrame>& out) {
  for (;;) {
    auto incoming = running.importer->next();
    if (!incoming)
      return fail(base, running, "receive from the sink", std::move(incoming.error()));
    GstFlowReturn flow = GST_FLOW_OK;
    if (auto* frame = std::get_if<ImportedFrame>(&*incoming)) {
      out.emplace(std::move(*frame));
      return GST_FLOW_OK;
    }
    if (const auto* caps = std::get_if<wire::Caps>(&*incoming))
      flow = on_caps(base, running, *caps);
    else if (const auto* segment = std::get_if<wire::Segment>(&*incoming))
      on_segment(base, running, *segment);
    else if (const auto* event = std::get_if<wire::Event>(&*incoming))
      on_event(base, *event);
    else if (const auto* latency = std::get_if<wire::Latency>(&*incoming))
      on_latency(base, *latency);
    else if (std::holds_alternative<wire::Eos>(*incoming) && !running.at_eos) {
      running.at_eos = true;
      gst_pad_push_event(GST_BASE_SRC_PAD(base), gst_event_new_eos());
    }
    if (flow != GST_FLOW_OK)
      return flow;
  }
}

GstFlowReturn create(GstBaseSrc* base, guint64, guint, GstBuffer** out) {
  auto* src = reinterpret_cast<CudaIpcVideoSrc*>(base);
  SrcState& state = state_of(src);
  const std::shared_ptr<Running> held = running_of(src);
  Running& running = *held;
  if (!running.importer->connected()) {
    if (auto connected = connect(src, running); !connected)
      return fail(base, running, "connect", std::move(connected.error()));
    GST_INFO_OBJECT(src, "connected to %s", running.address->text().c_str());
  }
  std::optional<ImportedFrame> frame;
  if (const GstFlowReturn flow = next_frame(base, running, frame); flow != GST_FLOW_OK)
    return flow;
  const wire::Frame info = frame->info();
  if (!running.have_caps || info.caps_serial != running.caps_serial)
    return fail(base, running, "receive from the sink",
                {Fault::Protocol, 0, "a frame without its caps"});
  if (auto ready = running.importer->wait_ready(*frame); !ready)
    return fail(base, running, "receive from the sink", std::move(ready.error()));
  if (running.at_eos)
    restart_after_eos(base, running);
  auto buffer = to_buffer(state, running, std::move(*frame));
  if (!buffer)
    return fail(base, running, "take a frame", std::move(buffer.error()));
  set_times(base, running, info, *buffer);
  count(state, info);
  *out = *buffer;
  return GST_FLOW_OK;
}

// --- The rest of a source

// Caps come from the sink, with the first message: there is nothing to fix before.
gboolean negotiate(GstBaseSrc*) {
  return TRUE;
}

gboolean is_seekable(GstBaseSrc*) {
  return FALSE;
}

gboolean query(GstBaseSrc* base, GstQuery* query) {
  SrcState& state = state_of(base);
  if (state.context.answer(GST_ELEMENT(base), query))
    return TRUE;
  if (GST_QUERY_TYPE(query) == GST_QUERY_LATENCY) {
    MutexLock lock(state.mutex);
    gst_query_set_latency(query, TRUE, state.sink_latency + state.settings.deadline,
                          GST_CLOCK_TIME_NONE);
    return TRUE;
  }
  return GST_BASE_SRC_CLASS(cudaipc_video_src_parent_class)->query(base, query);
}

void set_context(GstElement* element, GstContext* context) {
  SrcState& state = state_of(element);
  int device;
  {
    MutexLock lock(state.mutex);
    device = state.settings.device;
  }
  state.context.take(element, context, device);
  GST_ELEMENT_CLASS(cudaipc_video_src_parent_class)->set_context(element, context);
}

GstStateChangeReturn change_state(GstElement* element, GstStateChange transition) {
  const auto result =
      GST_ELEMENT_CLASS(cudaipc_video_src_parent_class)->change_state(element, transition);
  if (transition == GST_STATE_CHANGE_READY_TO_NULL)
    state_of(element).context.reset();
  return result;
}

void finalize(GObject* object) {
  delete static_cast<CudaIpcVideoSrc*>(static_cast<gpointer>(object))->state;
  G_OBJECT_CLASS(cudaipc_video_src_parent_class)->finalize(object);
}

void install_properties(GObjectClass* klass) {
  const auto rw = static_cast<GParamFlags>(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS |
                                           GST_PARAM_MUTABLE_READY);
  const auto ro = static_cast<GParamFlags>(G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);
  const auto install = [klass](guint id, GParamSpec* spec) {
    g_object_class_install_property(klass, id, spec);
  };
  install(PROP_ADDRESS,
          g_param_spec_string("address", "Address",
                              "Socket of the sink: a path, or @name in the abstract namespace. "
                              "Default: the sink's default for this user",
                              nullptr, rw));
  install(PROP_DEVICE, g_param_spec_int("cuda-device-id", "CUDA device",
                                        "Ordinal of the GPU, -1: the sink's own, found by its UUID",
                                        -1, G_MAXINT, -1, rw));
  install(
      PROP_IO_MODE,
      g_param_spec_enum("io-mode", "I/O mode", "Whether buffers are the sink's memory or a copy",
                        io_mode_get_type(), static_cast<int>(IoMode::Import), rw));
  install(PROP_TIMEOUT, g_param_spec_int("connection-timeout", "Connection timeout",
                                         "Seconds to wait for a sink to listen, -1: for ever", -1,
                                         G_MAXINT, kDefaultTimeout, rw));
  install(PROP_TIMESTAMP_MODE,
          g_param_spec_enum("timestamp-mode", "Timestamp mode", "What the buffers' times are",
                            timestamp_mode_get_type(), static_cast<int>(TimestampMode::Clock), rw));
  install(PROP_DEADLINE,
          g_param_spec_uint64("processing-deadline", "Processing deadline",
                              "Nanoseconds a frame may take from the sink to here; part of the "
                              "latency this source reports",
                              0, G_MAXUINT64, kDefaultDeadline, rw));
  install(PROP_STATS,
          g_param_spec_boxed("stats", "Statistics",
                             "received = delivered + abandoned; lost: dropped by the sink",
                             GST_TYPE_STRUCTURE, ro));
}

void cudaipc_video_src_class_init(CudaIpcVideoSrcClass* klass) {
  GST_DEBUG_CATEGORY_INIT(cudaipcsrc_debug, "cudaipcsrc", 0, "CUDA IPC video source");
  auto* object_class = G_OBJECT_CLASS(klass);
  object_class->set_property = set_property;
  object_class->get_property = get_property;
  object_class->finalize = finalize;
  install_properties(object_class);
  auto* element_class = GST_ELEMENT_CLASS(klass);
  element_class->set_context = set_context;
  element_class->change_state = change_state;
  gst_element_class_set_static_metadata(
      element_class, "CUDA IPC video source", "Source/Video",
      "Receives GPU video frames from another process without copying them", "The cudaipc authors");
  static GstStaticPadTemplate pad =
      GST_STATIC_PAD_TEMPLATE("src", GST_PAD_SRC, GST_PAD_ALWAYS, GST_STATIC_CAPS(CUDAIPC_CAPS));
  gst_element_class_add_static_pad_template(element_class, &pad);
  auto* base_class = GST_BASE_SRC_CLASS(klass);
  base_class->start = start;
  base_class->stop = stop;
  base_class->unlock = unlock;
  base_class->unlock_stop = unlock_stop;
  base_class->negotiate = negotiate;
  base_class->is_seekable = is_seekable;
  base_class->query = query;
  base_class->create = create;
  gst_type_mark_as_plugin_api(io_mode_get_type(), static_cast<GstPluginAPIFlags>(0));
  gst_type_mark_as_plugin_api(timestamp_mode_get_type(), static_cast<GstPluginAPIFlags>(0));
}

void cudaipc_video_src_init(CudaIpcVideoSrc* src) {
  src->state = new SrcState;
  auto* base = GST_BASE_SRC(src);
  gst_base_src_set_live(base, TRUE);
  gst_base_src_set_format(base, GST_FORMAT_TIME);
}

}  // namespace

GType src_get_type() {
  return cudaipc_video_src_get_type();
}

}  // namespace cudaipc
