// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// Enums and helpers of both elements.
#include "gst/elements.h"

namespace cudaipc {

GType ipc_mode_get_type() {
  static const GEnumValue values[] = {
      {static_cast<int>(IpcModeChoice::Auto), "vmm where the device exports it, else legacy",
       "auto"},
      {static_cast<int>(IpcModeChoice::Vmm), "cuMemCreate, descriptor over the socket, read-only",
       "vmm"},
      {static_cast<int>(IpcModeChoice::Legacy), "cuMemAlloc, cuIpcGetMemHandle", "legacy"},
      {0, nullptr, nullptr}};
  static const GType type = g_enum_register_static("CudaIpcVideoIpcMode", values);
  return type;
}

GType sync_mode_get_type() {
  static const GEnumValue values[] = {{static_cast<int>(SyncModeChoice::Auto),
                                       "semaphore, else event, else host, per consumer", "auto"},
                                      {static_cast<int>(SyncModeChoice::Semaphore),
                                       "stream writes into a shared page", "semaphore"},
                                      {static_cast<int>(SyncModeChoice::Event),
                                       "CUDA IPC events (same user and /dev/shm)", "event"},
                                      {static_cast<int>(SyncModeChoice::Host),
                                       "the sink waits for the GPU before it sends", "host"},
                                      {0, nullptr, nullptr}};
  static const GType type = g_enum_register_static("CudaIpcVideoSyncMode", values);
  return type;
}

Result<Address> resolve_address(const char* property) {
  return property ? Address::parse(property) : Address::default_for_user();
}

}  // namespace cudaipc
