// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// cudaipcsink: negotiation, pool proposal, buffer to exporter.

/**
 * SECTION:element-cudaipcsink
 * @title: cudaipcsink
 *
 * Offers video frames in GPU memory to other processes, over a Unix socket, without copying them.
 * An element in front that writes CUDA memory takes the sink's own buffers, so that its output is
 * what the consumers read; other CUDA memory is copied once on the GPU, system memory uploaded.
 *
 * |[
 * gst-launch-1.0 videotestsrc is-live=true ! cudaipcsink address=/tmp/cam.sock
 * gst-launch-1.0 cudaipcsrc address=/tmp/cam.sock ! videoconvert ! autovideosink
 * ]|
 *
 * Consumers come and go at any time. One that is slow loses frames (slow-consumer=drop) or makes
 * the stream wait (block); it never costs another consumer anything.
 *
 * Since: 0.1
 */

#include <gst/base/gstbasesink.h>

#include "gst/base/clock.h"
#include "gst/elements.h"
#include "gst/layout.h"
#include "gst/memory.h"
#include "gst/metas.h"
#include "gst/pool.h"
#include "gst/share/exporter.h"
#include "gst/slot_copier.h"

GST_DEBUG_CATEGORY_STATIC(cudaipcsink_debug);
#define GST_CAT_DEFAULT cudaipcsink_debug

namespace cudaipc {
namespace {

constexpr guint kDefaultMaxBuffers = 32;

enum class SlowChoice { Drop, Block };

GType slow_consumer_get_type() {
  static const GEnumValue values[] = {
      {static_cast<int>(SlowChoice::Drop), "the frame is lost for that consumer, and counted",
       "drop"},
      {static_cast<int>(SlowChoice::Block), "the stream waits for it: lossless", "block"},
      {0, nullptr, nullptr}};
  static const GType type = g_enum_register_static("CudaIpcVideoSlowConsumer", values);
  return type;
}

struct Settings {
  Text address;
  int device = -1;
  IpcModeChoice ipc_mode = IpcModeChoice::Auto;
  SyncModeChoice sync_mode = SyncModeChoice::Auto;
  guint max_buffers = kDefaultMaxBuffers;
  guint wait_for_consumers = 0;
  SlowChoice slow_consumer = SlowChoice::Drop;
};

// What exists from start() to stop(). Belongs to the streaming thread once running.
struct Running {
  std::shared_ptr<Exporter> exporter;
  std::unique_ptr<SlotCopier> copier;
  GstBufferPool* copies = nullptr;  // slots to copy into, for the current caps
  GstVideoInfo placed;              // frames of the current caps, as slots are laid out
  bool have_caps = false;
  bool waited = false;  // for wait-for-consumers
  std::vector<std::byte> metas;
  uint64_t latency = GST_CLOCK_TIME_NONE;
};

struct Counters {
  std::atomic<uint64_t> copied{0};     // CUDA memory that was not ours, copied on the GPU
  std::atomic<uint64_t> uploaded{0};   // system memory
  std::atomic<uint64_t> zero_copy{0};  // written by upstream into our slot
  std::atomic<uint64_t> metas_lost{0};
  std::atomic<uint64_t> events_lost{0};
};

// The C++ half of the element.
struct SinkState {
  Mutex mutex;
  Settings settings GUARDED_BY(mutex);
  std::shared_ptr<Exporter> exporter GUARDED_BY(mutex);  // for properties, any thread
  SharedContext context;
  std::string ipc_mode GUARDED_BY(mutex);
  std::unique_ptr<Running> running;  // state changes and the streaming thread, never both at once
  Counters counters;
};

struct CudaIpcVideoSink {
  GstBaseSink parent;
  SinkState* state;
};
struct CudaIpcVideoSinkClass {
  GstBaseSinkClass parent_class;
};

G_DEFINE_TYPE(CudaIpcVideoSink, cudaipc_video_sink, GST_TYPE_BASE_SINK)

SinkState& state_of(gpointer sink) {
  return *static_cast<CudaIpcVideoSink*>(sink)->state;
}

enum Property {
  PROP_0,
  PROP_ADDRESS,
  PROP_DEVICE,
  PROP_IPC_MODE,
  PROP_SYNC_MODE,
  PROP_MAX_BUFFERS,
  PROP_WAIT_FOR_CONSUMERS,
  PROP_SLOW_CONSUMER,
  PROP_NUM_CONSUMERS,
  PROP_STATS,
  N_PROPERTIES,
};
GParamSpec* properties[N_PROPERTIES];

// --- Properties

void set_property(GObject* object, guint id, const GValue* value, GParamSpec* spec) {
  SinkState& state = state_of(object);
  MutexLock lock(state.mutex);
  Settings& s = state.settings;
  switch (id) {
    case PROP_ADDRESS:
      s.address.reset(g_value_dup_string(value));
      break;
    case PROP_DEVICE:
      s.device = g_value_get_int(value);
      break;
    case PROP_IPC_MODE:
      s.ipc_mode = static_cast<IpcModeChoice>(g_value_get_enum(value));
      break;
    case PROP_SYNC_MODE:
      s.sync_mode = static_cast<SyncModeChoice>(g_value_get_enum(value));
      break;
    case PROP_MAX_BUFFERS:
      s.max_buffers = g_value_get_uint(value);
      break;
    case PROP_WAIT_FOR_CONSUMERS:
      s.wait_for_consumers = g_value_get_uint(value);
      break;
    case PROP_SLOW_CONSUMER:
      s.slow_consumer = static_cast<SlowChoice>(g_value_get_enum(value));
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, spec);
  }
}

GstStructure* consumer_structure(const ConsumerStats& c) {
  return gst_structure_new(
      "consumer", "id", G_TYPE_UINT64, c.id, "pid", G_TYPE_INT, c.credentials.pid, "uid",
      G_TYPE_UINT, c.credentials.uid, "sync-mode", G_TYPE_STRING, name_of(c.sync_mode), "local",
      G_TYPE_BOOLEAN, c.local, "offered", G_TYPE_UINT64, c.offered, "sent", G_TYPE_UINT64, c.sent,
      "dropped", G_TYPE_UINT64, c.dropped(), "dropped-share", G_TYPE_UINT64, c.dropped_share,
      "dropped-slots", G_TYPE_UINT64, c.dropped_slots, "dropped-socket", G_TYPE_UINT64,
      c.dropped_socket, "held", G_TYPE_UINT, c.held, "held-max", G_TYPE_UINT, c.held_max, nullptr);
}

GstStructure* stats(SinkState& state) {
  std::shared_ptr<Exporter> exporter;
  std::string ipc_mode;
  {
    MutexLock lock(state.mutex);
    exporter = state.exporter;
    ipc_mode = state.ipc_mode;
  }
  const ExporterStats e = exporter ? exporter->stats() : ExporterStats();
  const Counters& c = state.counters;
  GstStructure* s = gst_structure_new(
      "cudaipcsink-stats", "frames", G_TYPE_UINT64, e.frames, "zero-copy", G_TYPE_UINT64,
      c.zero_copy.load(), "copied", G_TYPE_UINT64, c.copied.load(), "uploaded", G_TYPE_UINT64,
      c.uploaded.load(), "metas-lost", G_TYPE_UINT64, c.metas_lost.load(), "events-lost",
      G_TYPE_UINT64, c.events_lost.load(), "slots", G_TYPE_UINT, e.slots, "slots-max", G_TYPE_UINT,
      e.slots_max, "refused", G_TYPE_UINT64, e.refused, "ipc-mode", G_TYPE_STRING, ipc_mode.c_str(),
      "departed-offered", G_TYPE_UINT64, e.departed.offered, "departed-sent", G_TYPE_UINT64,
      e.departed.sent, "departed-dropped", G_TYPE_UINT64, e.departed.dropped(), nullptr);
  GValue list = G_VALUE_INIT;
  g_value_init(&list, GST_TYPE_ARRAY);
  for (const ConsumerStats& consumer : e.consumers) {
    GValue value = G_VALUE_INIT;
    g_value_init(&value, GST_TYPE_STRUCTURE);
    g_value_take_boxed(&value, consumer_structure(consumer));
    gst_value_array_append_and_take_value(&list, &value);
  }
  gst_structure_take_value(s, "consumers", &list);
  return s;
}

void get_property(GObject* object, guint id, GValue* value, GParamSpec* spec) {
  SinkState& state = state_of(object);
  if (id == PROP_STATS) {
    g_value_take_boxed(value, stats(state));
    return;
  }
  MutexLock lock(state.mutex);
  const Settings& s = state.settings;
  switch (id) {
    case PROP_ADDRESS:
      if (s.address)
        g_value_set_string(value, s.address.get());
      else
        g_value_set_string(value, Address::default_text().c_str());
      break;
    case PROP_DEVICE:
      g_value_set_int(value, s.device);
      break;
    case PROP_IPC_MODE:
      g_value_set_enum(value, static_cast<int>(s.ipc_mode));
      break;
    case PROP_SYNC_MODE:
      g_value_set_enum(value, static_cast<int>(s.sync_mode));
      break;
    case PROP_MAX_BUFFERS:
      g_value_set_uint(value, s.max_buffers);
      break;
    case PROP_WAIT_FOR_CONSUMERS:
      g_value_set_uint(value, s.wait_for_consumers);
      break;
    case PROP_SLOW_CONSUMER:
      g_value_set_enum(value, static_cast<int>(s.slow_consumer));
      break;
    case PROP_NUM_CONSUMERS:
      g_value_set_uint(value, state.exporter ? state.exporter->num_consumers() : 0);
      break;
    default:
      G_OBJECT_WARN_INVALID_PROPERTY_ID(object, id, spec);
  }
}

// --- Start and stop

Result<MemoryKind> choose_memory(const ContextPtr& context, IpcModeChoice choice) {
  if (choice == IpcModeChoice::Legacy) {
    TRY(probe_memory(context, MemoryKind::Legacy));
    return MemoryKind::Legacy;
  }
  auto vmm = probe_memory(context, MemoryKind::Vmm);
  if (vmm)
    return MemoryKind::Vmm;
  if (choice == IpcModeChoice::Vmm)
    return std::move(vmm.error()).with("ipc-mode=vmm does not work on this device");
  auto legacy = probe_memory(context, MemoryKind::Legacy);
  if (legacy)
    return MemoryKind::Legacy;
  return Error{Fault::Unsupported, legacy.error().code,
               "this device shares memory in no way. vmm: " + vmm.error().message +
                   "; legacy: " + legacy.error().message};
}

Result<uint32_t> choose_sync(const ContextPtr& context, const DeviceInfo& device,
                             SyncModeChoice choice) {
  const uint32_t possible = possible_sync_modes(context, device);
  uint32_t wanted = possible;
  if (choice == SyncModeChoice::Semaphore)
    wanted = static_cast<uint32_t>(wire::SyncMode::Semaphore);
  else if (choice == SyncModeChoice::Event)
    wanted = static_cast<uint32_t>(wire::SyncMode::Event);
  else if (choice == SyncModeChoice::Host)
    wanted = static_cast<uint32_t>(wire::SyncMode::Host);
  if ((wanted & possible) == 0)
    return Error{Fault::Unsupported, 0,
                 choice == SyncModeChoice::Event
                     ? "sync-mode=event does not work on this device: IPC events cannot be exported"
                     : "sync-mode=semaphore does not work on this device: it lacks 64-bit stream "
                       "memory operations or host registration"};
  return wanted & possible;
}

Result<std::unique_ptr<Running>> start_running(CudaIpcVideoSink* sink, const Settings& settings,
                                               std::string& ipc_mode) {
  SinkState& state = state_of(sink);
  auto address = resolve_address(settings.address.get());
  if (!address)
    return std::move(address.error());
  auto context = state.context.ensure(GST_ELEMENT(sink), settings.device);
  if (!context)
    return std::move(context.error());
  auto device = device_info_of((*context)->device);
  if (!device)
    return std::move(device.error());
  auto memory = choose_memory(*context, settings.ipc_mode);
  if (!memory)
    return std::move(memory.error());
  auto sync = choose_sync(*context, *device, settings.sync_mode);
  if (!sync)
    return std::move(sync.error());
  auto listener = Listener::bind(*address);
  if (!listener)
    return std::move(listener.error());
  auto copier = SlotCopier::create(*context);
  if (!copier)
    return std::move(copier.error());

  ExporterConfig config;
  config.context = *context;
  config.device = *device;
  config.memory = *memory;
  config.sync_modes = *sync;
  config.max_slots = settings.max_buffers;
  config.slow_consumer =
      settings.slow_consumer == SlowChoice::Block ? SlowConsumer::Block : SlowConsumer::Drop;
  // The exporter's thread ends in stop(), so the element outlives it.
  config.consumers_changed = [sink](unsigned count) {
    GST_INFO_OBJECT(sink, "%u consumers", count);
    g_object_notify_by_pspec(G_OBJECT(sink), properties[PROP_NUM_CONSUMERS]);
  };
  config.warn = [sink](const std::string& text) { GST_WARNING_OBJECT(sink, "%s", text.c_str()); };
  auto exporter = Exporter::start(std::move(config), std::move(*listener));
  if (!exporter)
    return std::move(exporter.error());
  auto running = std::make_unique<Running>();
  running->exporter = std::move(*exporter);
  running->copier = std::move(*copier);
  ipc_mode = *memory == MemoryKind::Vmm ? "vmm" : "legacy";
  GST_INFO_OBJECT(sink, "listening at %s, device %s, ipc-mode=%s", address->text().c_str(),
                  to_string(device->uuid).c_str(), ipc_mode.c_str());
  return running;
}

gboolean start(GstBaseSink* base) {
  auto* sink = reinterpret_cast<CudaIpcVideoSink*>(base);
  SinkState& state = state_of(sink);
  Settings settings;
  {
    MutexLock lock(state.mutex);
    const Settings& s = state.settings;
    settings = {Text(g_strdup(s.address.get())),
                s.device,
                s.ipc_mode,
                s.sync_mode,
                s.max_buffers,
                s.wait_for_consumers,
                s.slow_consumer};
  }
  std::string ipc_mode;
  auto running = start_running(sink, settings, ipc_mode);
  if (!running) {
    post_error(sink, "start", running.error());
    return FALSE;
  }
  MutexLock lock(state.mutex);
  state.exporter = (*running)->exporter;
  state.ipc_mode = ipc_mode;
  state.running = std::move(*running);
  return TRUE;
}

void drop_pool(GstBufferPool** pool) {
  if (!*pool)
    return;
  gst_buffer_pool_set_active(*pool, FALSE);
  gst_clear_object(pool);
}

gboolean stop(GstBaseSink* base) {
  SinkState& state = state_of(base);
  std::unique_ptr<Running> running = std::move(state.running);
  if (!running)
    return TRUE;
  drop_pool(&running->copies);
  GstStructure* summary = stats(state);
  GST_INFO_OBJECT(base, "%" GST_PTR_FORMAT, summary);
  gst_structure_free(summary);
  // Waits for our own GPU work.
  running->exporter->stop();
  MutexLock lock(state.mutex);
  state.exporter.reset();
  return TRUE;
}

gboolean unlock(GstBaseSink* base) {
  if (Running* running = state_of(base).running.get())
    running->exporter->cancel(true);
  return TRUE;
}

gboolean unlock_stop(GstBaseSink* base) {
  if (Running* running = state_of(base).running.get())
    running->exporter->cancel(false);
  return TRUE;
}

// --- Negotiation

PoolError pool_error(gpointer sink) {
  // Pools outlive the element where upstream keeps buffers.
  auto weak = std::shared_ptr<GWeakRef>(new GWeakRef, [](GWeakRef* ref) {
    g_weak_ref_clear(ref);
    delete ref;
  });
  g_weak_ref_init(weak.get(), sink);
  return [weak](const Error& error) {
    if (gpointer element = g_weak_ref_get(weak.get())) {
      post_error(element, "make a buffer to share", error);
      g_object_unref(element);
    }
  };
}

GstBufferPool* make_pool(gpointer sink, const Running& running, GstCaps* caps, guint size) {
  GstBufferPool* pool = new_pool(running.exporter, pool_error(sink));
  GstStructure* config = gst_buffer_pool_get_config(pool);
  gst_buffer_pool_config_set_params(config, caps, size, 0, running.exporter->config().max_slots);
  gst_buffer_pool_config_add_option(config, GST_BUFFER_POOL_OPTION_VIDEO_META);
  if (!gst_buffer_pool_set_config(pool, config))
    gst_clear_object(&pool);
  return pool;
}

gboolean set_caps(GstBaseSink* base, GstCaps* caps) {
  Running& running = *state_of(base).running;
  GstVideoInfo info;
  if (!gst_video_info_from_caps(&info, caps)) {
    GST_ELEMENT_ERROR(base, STREAM, FORMAT, ("These caps are no video that can be shared."),
                      ("%" GST_PTR_FORMAT, caps));
    return FALSE;
  }
  // The whole caps travel; which memory they are in is each consumer's own question.
  GstCaps* plain = gst_caps_copy(caps);
  gst_caps_set_features(plain, 0, nullptr);
  const Text text(gst_caps_to_string(plain));
  gst_caps_unref(plain);
  if (auto told = running.exporter->set_caps(text.get()); !told) {
    post_error(base, "announce caps", told.error());
    return FALSE;
  }
  running.placed = info;
  place(running.placed);
  running.copier->set_info(info, running.placed);
  running.have_caps = true;
  drop_pool(&running.copies);
  return TRUE;
}

gboolean propose_allocation(GstBaseSink* base, GstQuery* query) {
  Running* running = state_of(base).running.get();
  GstCaps* caps = nullptr;
  gboolean need_pool = FALSE;
  gst_query_parse_allocation(query, &caps, &need_pool);
  GstVideoInfo info;
  if (!running || !caps || !gst_video_info_from_caps(&info, caps))
    return FALSE;
  gst_query_add_allocation_meta(query, GST_VIDEO_META_API_TYPE, nullptr);
  gst_query_add_allocation_meta(query, GST_VIDEO_CROP_META_API_TYPE, nullptr);
  // Only an element that writes CUDA memory gains from a pool of ours.
  const GstCapsFeatures* features = gst_caps_get_features(caps, 0);
  if (!features || !gst_caps_features_contains(features, GST_CAPS_FEATURE_MEMORY_CUDA_MEMORY))
    return TRUE;
  place(info);
  const guint size = static_cast<guint>(GST_VIDEO_INFO_SIZE(&info));
  GstBufferPool* pool = need_pool ? make_pool(base, *running, caps, size) : nullptr;
  gst_query_add_allocation_pool(query, pool, size, 0, running->exporter->config().max_slots);
  gst_clear_object(&pool);
  return TRUE;
}

// --- The stream

// The monotonic time at which the frame was captured, as the pipeline's clock has it.
uint64_t capture_time(GstBaseSink* base, GstClockTime pts) {
  if (!GST_CLOCK_TIME_IS_VALID(pts) || base->segment.format != GST_FORMAT_TIME)
    return wire::kNone;
  guint64 running_time = 0;
  const gint sign =
      gst_segment_to_running_time_full(&base->segment, GST_FORMAT_TIME, pts, &running_time);
  GstClock* clock = gst_element_get_clock(GST_ELEMENT(base));
  if (!clock || sign == 0) {
    gst_clear_object(&clock);
    return wire::kNone;
  }
  const auto base_time = static_cast<int64_t>(gst_element_get_base_time(GST_ELEMENT(base)));
  const auto now = static_cast<int64_t>(gst_clock_get_time(clock));
  const auto now_monotonic = static_cast<int64_t>(monotonic_ns());
  gst_object_unref(clock);
  const int64_t at = base_time + sign * static_cast<int64_t>(running_time);
  return static_cast<uint64_t>(now_monotonic + (at - now));
}

void tell_latency(GstBaseSink* base, Running& running) {
  const GstClockTime latency = gst_base_sink_get_latency(base);
  if (latency == running.latency)
    return;
  running.latency = latency;
  running.exporter->set_latency(latency);
}

GstFlowReturn fail(GstBaseSink* base, const char* doing, const Error& error) {
  post_error(base, doing, error);
  return GST_FLOW_ERROR;
}

// Repeats a wait that unlock() ended until it is over or the stream is flushed: on the way to
// PAUSED a sink stops in the middle of its work and goes on with it in PLAYING.
template <typename Wait>
GstFlowReturn wait_through_pauses(GstBaseSink* base, const char* doing, Wait wait) {
  for (;;) {
    const Result<void> result = wait();
    if (result)
      return GST_FLOW_OK;
    if (result.error().fault != Fault::Cancelled)
      return fail(base, doing, result.error());
    if (const GstFlowReturn flow = gst_base_sink_wait_preroll(base); flow != GST_FLOW_OK)
      return flow;
  }
}

// The buffer whose slot is to be sent: upstream's own, or one of ours with a copy of it.
struct Outgoing {
  SlotPtr slot;
  CUstream stream = nullptr;
  GstBuffer* copy = nullptr;  // holds the slot until the frame is sent
};

GstFlowReturn prepare(GstBaseSink* base, Running& running, Counters& counters, GstBuffer* buffer,
                      Outgoing& out) {
  out.slot = slot_of(buffer, *running.exporter);
  if (out.slot) {
    // Where a CPU wrote through a map, this uploads.
    GstMapInfo map;
    GstMemory* memory = gst_buffer_peek_memory(buffer, 0);
    if (!gst_memory_map(memory, &map, static_cast<GstMapFlags>(GST_MAP_READ | GST_MAP_CUDA))) {
      GST_ELEMENT_ERROR(base, RESOURCE, READ, ("The buffer could not be mapped."), (nullptr));
      return GST_FLOW_ERROR;
    }
    gst_memory_unmap(memory, &map);
    out.stream = stream_of(memory);
    ++counters.zero_copy;
    return GST_FLOW_OK;
  }
  if (!running.copies) {
    GstCaps* caps = gst_pad_get_current_caps(GST_BASE_SINK_PAD(base));
    running.copies =
        make_pool(base, running, caps, static_cast<guint>(GST_VIDEO_INFO_SIZE(&running.placed)));
    gst_caps_unref(caps);
    if (!running.copies || !gst_buffer_pool_set_active(running.copies, TRUE)) {
      GST_ELEMENT_ERROR(base, RESOURCE, FAILED, ("The sink's buffer pool does not start."),
                        (nullptr));
      return GST_FLOW_ERROR;
    }
  }
  if (const GstFlowReturn flow = gst_buffer_pool_acquire_buffer(running.copies, &out.copy, nullptr);
      flow != GST_FLOW_OK)
    return flow;
  out.slot = slot_of(out.copy, *running.exporter);
  out.stream = running.copier->stream();
  ++(SlotCopier::in_cuda_memory(buffer) ? counters.copied : counters.uploaded);
  if (auto copied = running.copier->copy(buffer, *out.slot); !copied)
    return fail(base, "copy a frame", copied.error());
  return GST_FLOW_OK;
}

GstFlowReturn render(GstBaseSink* base, GstBuffer* buffer) {
  SinkState& state = state_of(base);
  Running& running = *state.running;
  if (!running.have_caps) {
    GST_ELEMENT_ERROR(base, CORE, NEGOTIATION, ("Frames came before caps."), (nullptr));
    return GST_FLOW_NOT_NEGOTIATED;
  }
  if (!running.waited) {
    guint wanted;
    {
      MutexLock lock(state.mutex);
      wanted = state.settings.wait_for_consumers;
    }
    if (const GstFlowReturn flow =
            wait_through_pauses(base, "wait for consumers",
                                [&] { return running.exporter->wait_for_consumers(wanted); });
        flow != GST_FLOW_OK)
      return flow;
    running.waited = true;
  }
  running.copier->collect();
  tell_latency(base, running);

  Outgoing out;
  GstFlowReturn flow = prepare(base, running, state.counters, buffer, out);
  if (flow == GST_FLOW_OK) {
    wire::Frame frame;
    frame.pts = GST_BUFFER_PTS(buffer);
    frame.dts = GST_BUFFER_DTS(buffer);
    frame.duration = GST_BUFFER_DURATION(buffer);
    frame.offset = GST_BUFFER_OFFSET(buffer);
    frame.offset_end = GST_BUFFER_OFFSET_END(buffer);
    frame.flags = GST_BUFFER_FLAGS(buffer);
    frame.capture_ns = capture_time(base, GST_BUFFER_PTS(buffer));
    state.counters.metas_lost += serialise_metas(buffer, running.metas);
    frame.metas = running.metas;
    flow = wait_through_pauses(
        base, "send a frame", [&] { return running.exporter->offer(out.slot, frame, out.stream); });
  }
  if (out.copy)
    gst_buffer_unref(out.copy);
  return flow;
}

wire::Segment to_wire(const GstSegment& s) {
  wire::Segment segment;
  segment.flags = s.flags;
  segment.format = s.format;
  segment.rate = s.rate;
  segment.applied_rate = s.applied_rate;
  segment.base = s.base;
  segment.offset = s.offset;
  segment.start = s.start;
  segment.stop = s.stop;
  segment.time = s.time;
  segment.position = s.position;
  segment.duration = s.duration;
  return segment;
}

Result<void> send_text_event(Exporter& exporter, wire::EventKind kind, GstEvent* event,
                             gchar* owned_text) {
  const Text text(owned_text);
  if (!text)
    return Error{Fault::Unsupported, 0, "event cannot be serialised"};
  wire::Event message;
  message.kind = kind;
  message.gst_type = GST_EVENT_TYPE(event);
  message.text = text.get();
  return exporter.event(message);
}

// Serialised events come on the streaming thread, in order with the buffers.
void forward_event(GstBaseSink* base, GstEvent* event) {
  SinkState& state = state_of(base);
  if (!state.running)
    return;
  Exporter& exporter = *state.running->exporter;
  Result<void> sent;
  switch (GST_EVENT_TYPE(event)) {
    case GST_EVENT_SEGMENT: {
      const GstSegment* segment = nullptr;
      gst_event_parse_segment(event, &segment);
      exporter.set_segment(to_wire(*segment));
      break;
    }
    case GST_EVENT_GAP: {
      wire::Event message;
      message.kind = wire::EventKind::Gap;
      gst_event_parse_gap(event, &message.timestamp, &message.duration);
      sent = exporter.event(message);
      break;
    }
    case GST_EVENT_TAG: {
      GstTagList* tags = nullptr;
      gst_event_parse_tag(event, &tags);
      sent = send_text_event(exporter, wire::EventKind::Tag, event, gst_tag_list_to_string(tags));
      break;
    }
    case GST_EVENT_CUSTOM_DOWNSTREAM: {
      const GstStructure* structure = gst_event_get_structure(event);
      sent = send_text_event(exporter, wire::EventKind::Custom, event,
                             structure ? gst_structure_to_string(structure) : nullptr);
      break;
    }
    case GST_EVENT_EOS:
      exporter.eos();
      break;
    default:
      break;
  }
  if (!sent) {
    ++state.counters.events_lost;
    GST_WARNING_OBJECT(base, "not sent to consumers: %s", sent.error().message.c_str());
  }
}

gboolean event(GstBaseSink* base, GstEvent* event) {
  forward_event(base, event);
  return GST_BASE_SINK_CLASS(cudaipc_video_sink_parent_class)->event(base, event);
}

gboolean query(GstBaseSink* base, GstQuery* query) {
  SinkState& state = state_of(base);
  if (state.context.answer(GST_ELEMENT(base), query))
    return TRUE;
  return GST_BASE_SINK_CLASS(cudaipc_video_sink_parent_class)->query(base, query);
}

void set_context(GstElement* element, GstContext* context) {
  SinkState& state = state_of(element);
  int device;
  {
    MutexLock lock(state.mutex);
    device = state.settings.device;
  }
  state.context.take(element, context, device);
  GST_ELEMENT_CLASS(cudaipc_video_sink_parent_class)->set_context(element, context);
}

GstStateChangeReturn change_state(GstElement* element, GstStateChange transition) {
  const auto result =
      GST_ELEMENT_CLASS(cudaipc_video_sink_parent_class)->change_state(element, transition);
  if (transition == GST_STATE_CHANGE_READY_TO_NULL)
    state_of(element).context.reset();
  return result;
}

void finalize(GObject* object) {
  delete static_cast<CudaIpcVideoSink*>(static_cast<gpointer>(object))->state;
  G_OBJECT_CLASS(cudaipc_video_sink_parent_class)->finalize(object);
}

void install_properties(GObjectClass* klass) {
  const auto rw = static_cast<GParamFlags>(G_PARAM_READWRITE | G_PARAM_STATIC_STRINGS |
                                           GST_PARAM_MUTABLE_READY);
  const auto ro = static_cast<GParamFlags>(G_PARAM_READABLE | G_PARAM_STATIC_STRINGS);
  properties[PROP_ADDRESS] = g_param_spec_string(
      "address", "Address",
      "Socket to listen at: a path (at most 107 bytes), or @name in the abstract namespace. "
      "Default: a place of this user alone, $XDG_RUNTIME_DIR/cudaipc/video.sock",
      nullptr, rw);
  properties[PROP_DEVICE] =
      g_param_spec_int("cuda-device-id", "CUDA device",
                       "Ordinal of the GPU, -1: that of the neighbouring elements, else the first",
                       -1, G_MAXINT, -1, rw);
  properties[PROP_IPC_MODE] =
      g_param_spec_enum("ipc-mode", "IPC mode", "How memory is shared; stats shows what auto chose",
                        ipc_mode_get_type(), static_cast<int>(IpcModeChoice::Auto), rw);
  properties[PROP_SYNC_MODE] = g_param_spec_enum(
      "sync-mode", "Synchronisation mode",
      "How each side learns that the GPU is done; stats shows what auto chose for each consumer",
      sync_mode_get_type(), static_cast<int>(SyncModeChoice::Auto), rw);
  properties[PROP_MAX_BUFFERS] = g_param_spec_uint(
      "max-buffers", "Maximum buffers",
      "Limit of frame buffers in GPU memory; they are allocated as they are needed. Consumers "
      "share all but a quarter (at most 4) of them",
      2, wire::kMaxSlots, kDefaultMaxBuffers, rw);
  properties[PROP_WAIT_FOR_CONSUMERS] = g_param_spec_uint(
      "wait-for-consumers", "Wait for consumers",
      "Hold the first frame until this many consumers have joined", 0, 128, 0, rw);
  properties[PROP_SLOW_CONSUMER] = g_param_spec_enum(
      "slow-consumer", "Slow consumer", "What happens to a frame for which a consumer has no room",
      slow_consumer_get_type(), static_cast<int>(SlowChoice::Drop), rw);
  properties[PROP_NUM_CONSUMERS] =
      g_param_spec_uint("num-consumers", "Number of consumers", "Consumers that are connected now",
                        0, G_MAXUINT, 0, ro);
  properties[PROP_STATS] = g_param_spec_boxed(
      "stats", "Statistics",
      "frames = zero-copy + copied + uploaded; per consumer offered = sent + dropped",
      GST_TYPE_STRUCTURE, ro);
  g_object_class_install_properties(klass, N_PROPERTIES, properties);
}

void cudaipc_video_sink_class_init(CudaIpcVideoSinkClass* klass) {
  GST_DEBUG_CATEGORY_INIT(cudaipcsink_debug, "cudaipcsink", 0, "CUDA IPC video sink");
  auto* object_class = G_OBJECT_CLASS(klass);
  object_class->set_property = set_property;
  object_class->get_property = get_property;
  object_class->finalize = finalize;
  install_properties(object_class);
  auto* element_class = GST_ELEMENT_CLASS(klass);
  element_class->set_context = set_context;
  element_class->change_state = change_state;
  gst_element_class_set_static_metadata(
      element_class, "CUDA IPC video sink", "Sink/Video",
      "Offers GPU video frames to other processes without copying them", "The cudaipc authors");
  static GstStaticPadTemplate pad =
      GST_STATIC_PAD_TEMPLATE("sink", GST_PAD_SINK, GST_PAD_ALWAYS, GST_STATIC_CAPS(CUDAIPC_CAPS));
  gst_element_class_add_static_pad_template(element_class, &pad);
  auto* base_class = GST_BASE_SINK_CLASS(klass);
  base_class->start = start;
  base_class->stop = stop;
  base_class->unlock = unlock;
  base_class->unlock_stop = unlock_stop;
  base_class->set_caps = set_caps;
  base_class->propose_allocation = propose_allocation;
  base_class->render = render;
  base_class->event = event;
  base_class->query = query;
  gst_type_mark_as_plugin_api(ipc_mode_get_type(), static_cast<GstPluginAPIFlags>(0));
  gst_type_mark_as_plugin_api(sync_mode_get_type(), static_cast<GstPluginAPIFlags>(0));
  gst_type_mark_as_plugin_api(slow_consumer_get_type(), static_cast<GstPluginAPIFlags>(0));
}

void cudaipc_video_sink_init(CudaIpcVideoSink* sink) {
  sink->state = new SinkState;
  auto* base = GST_BASE_SINK(sink);
  // The last sample would keep a slot for good.
  gst_base_sink_set_last_sample_enabled(base, FALSE);
  // Handing a frame over takes microseconds; the default of 20 ms would delay the whole pipeline.
  gst_base_sink_set_processing_deadline(base, 0);
  // A source in the same pipeline may be what another sink waits for to preroll: were this one to
  // wait for that in turn, none would start.
  gst_base_sink_set_async_enabled(base, FALSE);
}

}  // namespace

GType sink_get_type() {
  return cudaipc_video_sink_get_type();
}

}  // namespace cudaipc
