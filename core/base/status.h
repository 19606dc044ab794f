// The one error type of Ronde. Results cross threads and ranks, so an error is a value that can be
// copied. It becomes an exception only at the edges (the C++ API and Python).
#pragma once

#include <cassert>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

/// Marks what the shared library exports.
#define RONDE_API [[gnu::visibility("default")]]

namespace ronde {

/// The kind of an error. Each has an exception type in the bindings.
enum class Code : std::uint8_t {
  kOk = 0,
  kInvalidArgument,    ///< A value the caller passed or set is not allowed.
  kMismatch,           ///< Ranks disagree about one operation.
  kDuplicateName,      ///< A name was submitted again while its first submission was in flight.
  kRankFailure,        ///< A rank died, was cut off or left while it was needed.
  kStalled,            ///< Some ranks never submitted the operation within the limit set.
  kTimeout,            ///< A deadline passed.
  kAborted,            ///< The wait was given up because the group is broken or shutting down.
  kInterrupted,        ///< A signal asked the waiting caller to return.
  kNotInitialized,     ///< Called before init or after shutdown.
  kUnsupported,        ///< No data plane here can do this.
  kResourceExhausted,  ///< Memory, descriptors or space ran out.
  kVersionMismatch,    ///< A peer runs another Ronde version.
  kUnavailable,        ///< A peer, library or device could not be reached.
  kInternal,           ///< A bug in Ronde.
  kNonfinite,          ///< Values that were reduced are not finite; the user wants an error then.
  kCorrupted,          ///< Data changed on its way: its checksum is wrong. The job is broken.
};

inline constexpr Code kLastCode = Code::kCorrupted;

/// The code's stable name, such as "rank failure".
RONDE_API std::string_view to_string(Code code) noexcept;

/// The rank that an error is about. `pid` is 0 and `host` empty where unknown.
struct FailedRank {
  int rank = -1;
  std::string host;
  int pid = 0;
};

/// Success, or a code with a message and the place where it arose. Cheap to copy.
/// Threads: immutable, so any.
class [[nodiscard]] RONDE_API Status {
 public:
  /// Success.
  Status() noexcept = default;

  /// An error; `file` and `line` say where it arose in Ronde.
  Status(Code code, std::string message, const char* file = __builtin_FILE(),
         int line = __builtin_LINE());

  [[nodiscard]] bool ok() const noexcept { return rep_ == nullptr; }
  [[nodiscard]] Code code() const noexcept { return ok() ? Code::kOk : rep_->code; }
  /// The text for people; empty when ok.
  [[nodiscard]] const std::string& message() const noexcept;
  /// "file:line" inside Ronde where the error arose; empty when ok.
  [[nodiscard]] std::string origin() const;
  /// The rank this error is about, where one is.
  [[nodiscard]] const std::optional<FailedRank>& failed_rank() const noexcept;

  /// The position of the tensor in its bundle that this error is about, where one is known.
  [[nodiscard]] std::optional<std::size_t> tensor() const noexcept;

  /// The same error, about `rank`.
  Status about(FailedRank rank) const;
  /// The same error, about that tensor; nothing: about none that is known.
  Status in_tensor(std::optional<std::size_t> position) const;
  /// The same error with `context` and ": " before its message. Ok stays ok.
  Status with_context(std::string_view context) const;
  /// "ok", or "<code>: <message>".
  [[nodiscard]] std::string to_string() const;

 private:
  struct Rep {
    Code code;
    std::string message;
    const char* file;
    int line;
    std::optional<FailedRank> failed_rank;
    std::optional<std::size_t> tensor;
  };
  Status changed(auto change) const;

  std::shared_ptr<const Rep> rep_;  // null means ok, so success costs nothing
};

/// A value, or the error that kept it from being made.
template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value)  // NOLINT(google-explicit-constructor)
      : value_(std::in_place_index<1>, std::move(value)) {}
  Result(Status status) : value_(std::in_place_index<0>, std::move(status)) {  // NOLINT
    assert(!std::get<0>(value_).ok());
  }

  [[nodiscard]] bool ok() const noexcept { return value_.index() == 1; }
  /// The error; ok when there is a value.
  [[nodiscard]] Status status() const { return ok() ? Status() : std::get<0>(value_); }
  /// The value; only when ok().
  [[nodiscard]] T& value() & { return std::get<1>(value_); }
  [[nodiscard]] const T& value() const& { return std::get<1>(value_); }
  [[nodiscard]] T&& value() && { return std::get<1>(std::move(value_)); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  std::variant<Status, T> value_;
};

}  // namespace ronde

/// Returns the status from the enclosing function when it is an error.
#define RONDE_RETURN_IF_ERROR(expr)                                                        \
  do {                                                                                     \
    if (::ronde::Status ronde_status_ = (expr); !ronde_status_.ok()) return ronde_status_; \
  } while (false)

#define RONDE_CONCAT_INNER_(a, b) a##b
#define RONDE_CONCAT_(a, b) RONDE_CONCAT_INNER_(a, b)
#define RONDE_ASSIGN_OR_RETURN_IMPL_(tmp, lhs, expr) \
  auto tmp = (expr);                                 \
  if (!tmp.ok()) return tmp.status();                \
  lhs = std::move(tmp).value()
/// Assigns the value of a Result to `lhs`, or returns its error from the enclosing function.
#define RONDE_ASSIGN_OR_RETURN(lhs, expr) \
  RONDE_ASSIGN_OR_RETURN_IMPL_(RONDE_CONCAT_(ronde_result_, __LINE__), lhs, expr)
