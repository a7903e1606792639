// SPDX-License-Identifier: LGPL-2.1-or-later
// Copyright (C) 2026 The cudaipc authors
// The metas of a buffer as bytes, and back.
//
// A record is kind, size (uint32 each) and that many bytes, records one behind the other. What is
// read comes from a peer: a record that does not parse is skipped and counted, never trusted.
#pragma once

#include <gst/gst.h>

#include <cstddef>
#include <span>
#include <vector>

namespace cudaipc {

// Replaces `out` with the records of the buffer's metas and returns how many metas could not be
// put in (no serialiser, or over the limit). GstVideoMeta and what only means something inside
// this process is not a loss: it is left out and made anew.
guint serialise_metas(GstBuffer* buffer, std::vector<std::byte>& out);
// Adds the metas to the buffer and returns how many records were not understood.
guint add_metas(GstBuffer* buffer, std::span<const std::byte> records);

}  // namespace cudaipc
