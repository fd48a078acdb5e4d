// What a snapshot's reader and writer share: see snapshot.h.
#pragma once

#include <cstdint>
#include <string_view>

#include "tuner_db/ladder/ladder.h"
#include "tuner_db/ladder/withdrawn_list.h"
#include "tuner_db/records/record_codec.h"

namespace lw {

constexpr char kSnapshotMagic[9] = "LWSCHED\n";
constexpr uint64_t kSnapshotVersion = kRecordVersion;  // and readers take all before it

struct SnapshotEntry {
  uint64_t hash, offset;
};

struct SnapshotHeader {
  char magic[8];
  uint64_t version;
  uint64_t file_bytes;
  int64_t unix_ms;
  struct {
    uint64_t offset, count;
  } tables[3];      // records, structures, targets
  char sha256[64];  // hexadecimal, of the bytes after the header
  uint64_t withdrawn;  // the place of their payload; 0: none, as before there was such a thing
  uint64_t checksum;  // of the bytes before it
};
static_assert(sizeof(SnapshotHeader) == 160);

// A structure's payload after its name: groups, each with the rows' workloads and shapes.
std::string encode_structure(const std::vector<const ScheduleRecord*>& members);
bool decode_structure(std::string_view bytes, StructureIndex* index);

// The payload of what is withdrawn: the list's bytes, then for each digest why.
std::string encode_withdrawn(const WithdrawnReasons& reasons);
// `reasons` may be null: they are not read then.
bool decode_withdrawn(std::string_view bytes, WithdrawnList* list, WithdrawnReasons* reasons);

}  // namespace lw
