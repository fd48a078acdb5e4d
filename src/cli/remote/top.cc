// The service in a terminal, drawn anew every second on the alternate screen, which is given back
// with the terminal's settings however the command ends. Without a terminal, or with --once, one
// plain picture. A server that does not answer is said so on the screen, and asked again.
#include <poll.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include <chrono>
#include <iostream>

#include "absl/strings/str_join.h"
#include "loopwright/v1/fleet.grpc.pb.h"
#include "loopwright/v1/study.grpc.pb.h"
#include "src/base/clock.h"
#include "src/cli/commands.h"
#include "src/cli/interrupt.h"
#include "src/cli/service/fleet_view.h"
#include "src/cli/service/service.h"

namespace lw {
namespace {

namespace v1 = loopwright::v1;
constexpr double kDeadline_s = 5;
constexpr int kDevices = 200, kStudies = 50;

struct TopOptions {
  RemoteService service;
  double every_s = 1;
  bool once = false, json = false;
};

absl::StatusOr<FleetSnapshot> ask(const RemoteService& service,
                                  const std::shared_ptr<grpc::Channel>& channel) {
  FleetSnapshot snapshot;
  snapshot.server = service.server.address;
  const auto fleet = v1::FleetService::NewStub(channel);
  const auto tuning = v1::TuningService::NewStub(channel);
  RETURN_IF_ERROR(service.call(kDeadline_s, [&](grpc::ClientContext& context) {
    return fleet->GetFleet(&context, v1::GetFleetRequest(), &snapshot.fleet);
  }));
  v1::ListDevicesRequest list_devices;
  v1::ListDevicesResponse devices;
  list_devices.set_page_size(kDevices);
  RETURN_IF_ERROR(service.call(kDeadline_s, [&](grpc::ClientContext& context) {
    return fleet->ListDevices(&context, list_devices, &devices);
  }));
  v1::ListStudiesRequest list_studies;
  v1::ListStudiesResponse studies;
  list_studies.set_page_size(kStudies);
  RETURN_IF_ERROR(service.call(kDeadline_s, [&](grpc::ClientContext& context) {
    return tuning->ListStudies(&context, list_studies, &studies);
  }));
  snapshot.devices.assign(devices.devices().begin(), devices.devices().end());
  snapshot.studies.assign(studies.studies().begin(), studies.studies().end());
  snapshot.now_ms = unix_ms();
  return snapshot;
}

int print_once(const FleetSnapshot& snapshot, bool json) {
  if (!json) {
    std::cout << absl::StrJoin(fleet_lines(snapshot, {}), "\n") << "\n";
    return kDone;
  }
  Json document = {{"fleet", as_json(snapshot.fleet)}, {"devices", Json::array()},
                   {"studies", Json::array()}};
  for (const v1::DeviceStatus& device : snapshot.devices)
    document["devices"].push_back(as_json(device));
  for (const v1::Study& study : snapshot.studies) document["studies"].push_back(as_json(study));
  std::cout << document.dump(2, ' ', false, Json::error_handler_t::replace) << "\n";
  return kDone;
}

// The alternate screen, keys as they are pressed; all of it undone at the end.
class Terminal {
 public:
  Terminal() {
    is_set_ = isatty(STDIN_FILENO) != 0 && tcgetattr(STDIN_FILENO, &before_) == 0;
    if (is_set_) {
      termios raw = before_;
      raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
      raw.c_cc[VMIN] = 0;
      raw.c_cc[VTIME] = 0;
      tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    put("\x1b[?1049h\x1b[?25l");
  }
  ~Terminal() {
    put("\x1b[?25h\x1b[?1049l");
    if (is_set_) tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }

  Screen screen() const {
    winsize size{};
    const bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
    return {known ? size.ws_col : 80, known ? size.ws_row : 24, std::getenv("NO_COLOR") == nullptr};
  }
  // All at once, each line's rest and what is below cleared: no flicker.
  void draw(const std::vector<std::string>& lines) const {
    put(concat("\x1b[H", absl::StrJoin(lines, "\x1b[K\r\n"), "\x1b[K\x1b[J"));
  }
  // Whether to go on, after so long or a key.
  bool wait(double seconds) const {
    const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (!interrupted()) {
      const double left =
          std::chrono::duration<double>(end - std::chrono::steady_clock::now()).count();
      if (left <= 0) return true;
      pollfd key{is_set_ ? STDIN_FILENO : -1, POLLIN, 0};
      if (poll(&key, 1, static_cast<int>(1000 * left) + 1) <= 0) continue;
      char pressed = 0;
      const ssize_t got = read(STDIN_FILENO, &pressed, 1);
      if (got <= 0 || pressed == 'q' || pressed == 'Q' || pressed == 3) return false;
    }
    return false;
  }

 private:
  static void put(const std::string& text) {
    for (size_t done = 0; done < text.size();) {
      const ssize_t n = write(STDOUT_FILENO, text.data() + done, text.size() - done);
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return;
      done += static_cast<size_t>(n);
    }
  }
  termios before_{};
  bool is_set_ = false;
};

absl::StatusOr<int> watch(const TopOptions& options, const std::shared_ptr<grpc::Channel>& channel,
                          FleetSnapshot last) {
  watch_interrupts();
  const Terminal terminal;
  std::string trouble;
  do {
    const Screen screen = terminal.screen();
    FleetSnapshot shown = last;
    if (!trouble.empty()) shown.fleet.set_problem(trouble);
    terminal.draw(fleet_lines(shown, screen));
    if (!terminal.wait(options.every_s)) break;
    absl::StatusOr<FleetSnapshot> next = ask(options.service, channel);
    trouble = next.ok() ? "" : concat("NO ANSWER: ", std::string(next.status().message()));
    if (next.ok()) last = *std::move(next);
  } while (true);
  return kDone;
}

absl::StatusOr<int> run_top(const TopOptions& options) {
  ASSIGN_OR_RETURN(const std::shared_ptr<grpc::Channel> channel, options.service.connect());
  ASSIGN_OR_RETURN(FleetSnapshot first, ask(options.service, channel));
  const bool live = !options.once && !options.json && isatty(STDOUT_FILENO) != 0;
  if (!live) return print_once(first, options.json);
  return watch(options, channel, std::move(first));
}

Action declare_top(CliArguments app) {
  auto options = std::make_shared<TopOptions>();
  add_service(app, &options->service);
  app.add_option("--every", options->every_s, "seconds between pictures")
      .between(0.1, 3600.0).capture_default_str();
  app.add_flag("--once", options->once, "one plain picture");
  app.add_flag("--json", options->json, "one JSON document");
  return [options] { return run_top(*options); };
}

}  // namespace

const CommandGroup& top_commands() {
  static const CommandGroup group = {210, {
      {"top", "a service's devices, queue and studies, live", declare_top},
  }};
  return group;
}

}  // namespace lw
