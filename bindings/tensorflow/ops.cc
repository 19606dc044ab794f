// The graph ops, their shapes and kernels. All are stateful: they are never folded, merged or
// pruned, as a rank that leaves one out would hold up the others.
//
// names: one for each tensor, each an operation of its own; or a single one for all as one
// operation; "" for operations that are matched by order. site: "file:line" of the user's code.
// program: the number of the traced function, see program.h; 0: none; -1: in eager mode. Scale
// factors are texts, as attributes have no double. priorities: one for each name, or none.
#include "kernels.h"
#include "tensorflow/core/framework/common_shape_fns.h"
#include "tensorflow/core/framework/op.h"
#include "tensorflow/core/framework/shape_inference.h"

namespace {

using tensorflow::shape_inference::InferenceContext;
using tensorflow::shape_inference::ShapeHandle;

absl::Status same_shapes(InferenceContext* c) {
  for (int i = 0; i < c->num_outputs(); ++i) c->set_output(i, c->input(i));
  return absl::OkStatus();
}

/// The shape with another first extent; a scalar counts as one row.
absl::Status other_rows(InferenceContext* c, ShapeHandle shape, ShapeHandle* result) {
  if (!c->RankKnown(shape)) {
    *result = c->UnknownShape();
    return absl::OkStatus();
  }
  if (c->Rank(shape) == 0) {
    *result = c->Vector(InferenceContext::kUnknownDim);
    return absl::OkStatus();
  }
  return c->ReplaceDim(shape, 0, c->UnknownDim(), result);
}

absl::Status other_rows_each(InferenceContext* c) {
  for (int i = 0; i < c->num_inputs(); ++i) {
    ShapeHandle shape;
    TF_RETURN_IF_ERROR(other_rows(c, c->input(i), &shape));
    c->set_output(i, shape);
  }
  return absl::OkStatus();
}

absl::Status alltoall_shapes(InferenceContext* c) {
  ShapeHandle rows;
  TF_RETURN_IF_ERROR(other_rows(c, c->input(0), &rows));
  c->set_output(0, rows);
  c->set_output(1, c->Vector(InferenceContext::kUnknownDim));
  return absl::OkStatus();
}

}  // namespace

/// A graph op and its kernel: the collective, and true where its last input is this rank's weight.
#define RONDE_OP(name, ...)                                                  \
  REGISTER_KERNEL_BUILDER(Name(name).Device(tensorflow::DEVICE_CPU),         \
                          ronde::tensorflow::CollectiveKernel<__VA_ARGS__>); \
  REGISTER_OP(name)                                                          \
      .SetIsStateful()                                                       \
      .Attr("names: list(string)")                                           \
      .Attr("set: int = 0")                                                  \
      .Attr("site: string = ''")
#define RONDE_PROGRAM Attr("program: int = 0")
#define RONDE_SCALED_OP \
  Attr("op: int").Attr("prescale: string = '1'").Attr("postscale: string = '1'")
#define RONDE_SENDING Attr("compression: string = ''").Attr("priorities: list(int) = []")

#define RONDE_TYPES                                                                            \
  "{uint8, uint16, uint32, uint64, int8, int16, int32, int64, half, bfloat16, float, double, " \
  "bool}"
#define RONDE_TENSORS Attr("T: list(" RONDE_TYPES ") >= 1").Input("tensors: T").Output("results: T")

RONDE_OP("RondeAllreduce", RONDE_ALLREDUCE)
    .RONDE_TENSORS.RONDE_SCALED_OP.RONDE_SENDING.RONDE_PROGRAM.SetShapeFn(same_shapes)
    .Doc("Combines tensors over all ranks of a process set, element by element.");

RONDE_OP("RondeWeightedAllreduce", RONDE_ALLREDUCE, true)
    .Attr("T: list({half, bfloat16, float, double}) >= 1")
    .Input("tensors: T")
    .Input("weight: double")
    .Output("results: T")
    .RONDE_SCALED_OP.RONDE_SENDING.RONDE_PROGRAM.SetShapeFn(same_shapes)
    .Doc("Averages tensors over all ranks of a process set; `weight`: this rank's in the mean.");

RONDE_OP("RondeAllgather", RONDE_ALLGATHER)
    .RONDE_TENSORS.RONDE_PROGRAM.SetShapeFn(other_rows_each)
    .Doc("Joins the ranks' tensors along the first dimension, which may differ between ranks.");

RONDE_OP("RondeBroadcast", RONDE_BROADCAST)
    .RONDE_TENSORS.RONDE_PROGRAM.Attr("root: int")
    .SetShapeFn(same_shapes)
    .Doc("Gives every rank the root's tensors.");

RONDE_OP("RondeReducescatter", RONDE_REDUCE_SCATTER)
    .RONDE_TENSORS.RONDE_SCALED_OP.RONDE_PROGRAM.SetShapeFn(other_rows_each)
    .Doc("Combines over all ranks and leaves each its part of the rows.");

RONDE_OP("RondeAlltoall", RONDE_ALLTOALL)
    .Attr("T: " RONDE_TYPES)
    .Input("tensor: T")
    .Input("splits: int64")
    .Output("result: T")
    .Output("received_splits: int64")
    .RONDE_PROGRAM.SetShapeFn(alltoall_shapes)
    .Doc("Sends splits[r] rows to rank r; no splits mean even parts.");

RONDE_OP("RondeSparseAllreduce", RONDE_SPARSE_ALLREDUCE)
    .Attr("T: " RONDE_TYPES)
    .Input("values: T")
    .Input("indices: int64")
    .Input("rows: int64")
    .Output("sums: T")
    .Output("places: int64")
    .RONDE_SCALED_OP.RONDE_PROGRAM.SetShapeFn(alltoall_shapes)
    .Doc("Adds up rows of equal index over all ranks; indices are below `rows`, or -1: any.");

RONDE_OP("RondeBarrier", RONDE_BARRIER)
    .RONDE_PROGRAM.SetShapeFn(tensorflow::shape_inference::NoOutputs)
    .Doc("Ends once all ranks of the set have come to it.");

RONDE_OP("RondeJoin", RONDE_JOIN)
    .Output("last: int32")
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc("Says that this rank has no more data; gives the rank that joined last.");

REGISTER_OP("RondeQuery")
    .Attr("what: {'rank', 'size', 'local_rank', 'local_size', 'included'}")
    .Attr("set: int = 0")
    .Output("value: int32")
    .SetIsStateful()
    .SetShapeFn(tensorflow::shape_inference::ScalarShape)
    .Doc("Who this process is in the job, when the graph runs.");
REGISTER_KERNEL_BUILDER(Name("RondeQuery").Device(tensorflow::DEVICE_CPU),
                        ronde::tensorflow::QueryKernel);
