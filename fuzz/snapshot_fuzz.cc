// libFuzzer target for snapshots: any bytes open or are refused, and every record, structure and
// target in what opens is read or refused. Checksums would hide the decoders from a fuzzer, so the
// bytes after the header's are given to these directly too, and the header's own checksum is
// repaired.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "tuner_db/ladder/snapshot.h"
#include "tuner_db/ladder/snapshot_format.h"
#include "tuner_db/records/record_codec.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string bytes(reinterpret_cast<const char*>(data), size);
  lw::ByteReader reader(bytes);
  lw::decode_record(reader);
  lw::StructureIndex structure;
  lw::decode_structure(bytes, &structure);
  lw::WithdrawnList list;
  lw::WithdrawnReasons reasons;
  if (lw::decode_withdrawn(bytes, &list, &reasons)) CHECK(list.size() == reasons.size());
  if (bytes.size() < sizeof(lw::SnapshotHeader)) {
    CHECK(!lw::Snapshot::over(bytes).ok());
    return 0;
  }
  lw::SnapshotHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  std::memcpy(header.magic, lw::kSnapshotMagic, sizeof header.magic);
  header.version = lw::kSnapshotVersion;
  header.file_bytes = bytes.size();
  header.checksum = lw::checksum(
      {reinterpret_cast<const char*>(&header), sizeof header - sizeof header.checksum});
  std::memcpy(bytes.data(), &header, sizeof header);
  const absl::StatusOr<std::unique_ptr<lw::Snapshot>> snapshot = lw::Snapshot::over(bytes);
  if (!snapshot.ok()) return 0;
  (void)(*snapshot)->withdrawn_reasons();
  const absl::StatusOr<std::vector<lw::Key>> keys = (*snapshot)->keys();
  if (!keys.ok()) return 0;
  for (const lw::Key& key : *keys) {
    const auto record = (*snapshot)->record(key);
    (void)(*snapshot)->target(key.target);
    if (!record.ok()) continue;
    (void)(*snapshot)->with_structure((*record)->structure, [](const lw::StructureIndex& index) {
      for (const lw::StructureGroup& group : index.groups) group.shapes.nearest({}, {}, 1);
    });
  }
  return 0;
}
