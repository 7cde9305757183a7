// A comparison as people read it. Pure.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "client/cpp/cli/dataset_figures.h"
#include "client/cpp/comparison.h"

namespace fovea::client {

// "slower", "equivalent", or "undecided" for each reason to give no verdict.
std::string VerdictText(Verdict verdict);

// Why there is no verdict, as a clause: "the control is off".
std::string DoubtText(Verdict doubt);

// As VariantLabel names it.
std::string VariantText(const ComparedVariant& variant, const Comparison& comparison);

// Of each.
std::vector<std::string> VariantTexts(const Comparison& comparison);

// "star 98.0 %", or "nothing".
std::string AnswerText(const BriefAnswer& answer);

// What was measured, in one line. `images`: the paths that the rounds took in turn.
std::string ComparisonConditions(const Comparison& comparison,
                                 const std::vector<std::string>& images);

// When, by what and on which machine, a sentence; empty: the server does not say.
std::string ProvenanceText(const Provenance& measured);
void PrintProvenance(const Provenance& measured, std::ostream& out);

// A note that other programs slowed the measurement, and what to do; empty: they did not.
std::string BusyText(const Provenance& measured);

// What is to be known, a sentence each: that the machine was busy, whose weights variants have, why
// there is no verdict.
std::vector<std::string> ComparisonNotes(const Comparison& comparison);

// How far answers are those of the baseline: the columns of the comparison's task and, of a variant
// that is not the baseline, their cells.
std::vector<std::string> AgreementTitles(const Comparison& comparison);
std::vector<std::string> AgreementTexts(const ComparedVariant& variant);

// `images`: the paths that the rounds took in turn.
// `dataset`: of its variants, null where none was measured; here and below.
void PrintComparison(const Comparison& comparison, const std::vector<std::string>& images,
                     std::ostream& out, bool colour, const DatasetFigures* dataset = nullptr);

}  // namespace fovea::client
