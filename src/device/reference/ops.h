// One short function an op: the meaning of graph.hpp's op structs in plain code.
#pragma once

#include "device/reference/step.h"

namespace llminfer::device::reference {

void run_op(const backend::Embed& op, const Step& step);
void run_op(const backend::RmsNorm& op, const Step& step);
void run_op(const backend::LayerNorm& op, const Step& step);
void run_op(const backend::MatMul& op, const Step& step);
void run_op(const backend::Rope& op, const Step& step);
void run_op(const backend::KvWrite& op, const Step& step);
void run_op(const backend::PagedAttention& op, const Step& step);
void run_op(const backend::GatedActivation& op, const Step& step);
void run_op(const backend::Add& op, const Step& step);
void run_op(const backend::Scale& op, const Step& step);
void run_op(const backend::Softcap& op, const Step& step);
void run_op(const backend::Slice& op, const Step& step);
void run_op(const backend::GatherRows& op, const Step& step);
void run_op(const backend::MoeRoute& op, const Step& step);
void run_op(const backend::MoeMatMul& op, const Step& step);
void run_op(const backend::MoeCombine& op, const Step& step);

}  // namespace llminfer::device::reference
