#include "src/serve/access/admission.h"

#include "schedules/targets/target.h"
#include "src/base/check.h"
#include "src/base/message.h"
#include "src/net/words.h"
#include "src/serve/messages/names.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;

// No operator keeps it from work, nor anything that it did.
bool is_free(const DeviceRow& device) {
  return device.admission == v1::DEVICE_ADMISSION_OPEN ||
         device.admission == v1::DEVICE_ADMISSION_UNSUPPORTED;
}

void set(DeviceRow* device, v1::DeviceAdmission admission, std::string reason) {
  device->admission = admission;
  device->reason = std::move(reason);
}

// By an admin, or in the time when new devices did not wait for one.
absl::StatusOr<bool> is_admitted(Transaction& tx, const DeviceRow& device) {
  Query query = tx.query(
      "SELECT 1 FROM admitted WHERE agent = ? AND target = ? UNION ALL "
      "SELECT 1 FROM devices WHERE agent = ? AND target = ? AND admission = 'open' LIMIT 1",
      device.agent, device.target, device.agent, device.target);
  const bool found = query.next();
  RETURN_IF_ERROR(query.status());
  return found;
}

}  // namespace

absl::Status review_admission(Transaction& tx, bool new_devices_wait, bool is_another,
                              DeviceRow* device) {
  const bool is_pending = device->admission == v1::DEVICE_ADMISSION_PENDING;
  if (is_pending || (is_another && is_free(*device))) {
    bool admitted = !new_devices_wait;
    if (!admitted) {
      ASSIGN_OR_RETURN(admitted, is_admitted(tx, *device));
    }
    if (!admitted) {
      set(device, v1::DEVICE_ADMISSION_PENDING,
          concat(agent_name(device->agent), " waits to be admitted with the target ",
                 device->description.target().name(), ": loopwright devices resume ", device->id));
    } else if (is_pending) {
      set(device, v1::DEVICE_ADMISSION_OPEN, "");
    }
  }
  if (!is_free(*device)) return absl::OkStatus();
  const auto& words = device->description.words();
  std::string why = misfit({words.begin(), words.end()});
  const auto admission = why.empty() ? v1::DEVICE_ADMISSION_OPEN : v1::DEVICE_ADMISSION_UNSUPPORTED;
  set(device, admission, std::move(why));
  return absl::OkStatus();
}

absl::Status admit(WriteTransaction& tx, std::string_view agent, std::string_view target,
                   int64_t now_ms) {
  return tx.query("INSERT INTO admitted (agent, target, time_ms) VALUES (?,?,?) "
                  "ON CONFLICT DO NOTHING", agent, target, now_ms).run();
}

}  // namespace lw
