// Everything an application needs.
#pragma once

#include <llminfer/batcher.hpp>
#include <llminfer/ceilings.hpp>
#include <llminfer/device.hpp>
#include <llminfer/device_description.hpp>
#include <llminfer/error.hpp>
#include <llminfer/forecast.hpp>
#include <llminfer/generator.hpp>
#include <llminfer/model.hpp>
#include <llminfer/model_source.hpp>
#include <llminfer/profile.hpp>
#include <llminfer/sampling.hpp>
#include <llminfer/session.hpp>
#include <llminfer/simulate.hpp>
#include <llminfer/tokenizer.hpp>
