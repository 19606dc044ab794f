// A module whose backend says what it was made from.
#include "core/ports/backend_module.h"

namespace ronde {
namespace {

class EchoBackend final : public Backend {
 public:
  explicit EchoBackend(std::string interface) : interface_(std::move(interface)) {}
  std::string_view name() const noexcept override { return "echo"; }
  Status viable(const GroupSpec&) override { return {Code::kUnavailable, "uses " + interface_}; }
  Result<std::unique_ptr<Communicator>> open(const GroupSpec&, Exchange&) override {
    return Status(Code::kUnsupported, "opens nothing");
  }

 private:
  const std::string interface_;
};

std::unique_ptr<Backend> create_echo(const ModuleOptions& options) {
  return std::make_unique<EchoBackend>(options.network_interface);
}

}  // namespace
}  // namespace ronde

RONDE_DEFINE_MODULE(ronde::create_echo)
