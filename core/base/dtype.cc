#include "core/base/dtype.h"

namespace ronde {

std::string_view to_string(DType dtype) noexcept { return name_in(kDTypes, dtype); }
std::string_view to_string(ReduceOp op) noexcept { return name_in(kReduceOps, op); }

Result<DType> parse_dtype(std::string_view text) { return parse_in(kDTypes, text, "dtype"); }
Result<ReduceOp> parse_reduce_op(std::string_view text) {
  return parse_in(kReduceOps, text, "reduce operation");
}

}  // namespace ronde
