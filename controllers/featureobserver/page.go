// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featureobserver

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/kube-annex/annex/apis/features/v1alpha1"
)

const (
	featureMetric = "kubernetes_feature_enabled"
	buildMetric   = "kubernetes_build_info"

	// maxWanted is how much of a page may be about features. A component has some hundred gates of some hundred bytes.
	maxWanted = 4 << 20
	// maxLine is how long a line about a feature may be.
	maxLine = 64 << 10

	maxGateLength = 253
	// maxVersionLength is how many characters of a version a use can hold.
	maxVersionLength = 64
)

// gateName is what the API takes as the name of a Feature.
var gateName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._-]*$`)

// stabilities are the stages of gates as the metric tells them.
var stabilities = map[string]v1alpha1.Stability{
	"PRE-ALPHA":  v1alpha1.StabilityPreAlpha,
	"ALPHA":      v1alpha1.StabilityAlpha,
	"BETA":       v1alpha1.StabilityBeta,
	"":           v1alpha1.StabilityGA,
	"DEPRECATED": v1alpha1.StabilityDeprecated,
}

// gate is what a page says about one feature gate.
type gate struct {
	value v1alpha1.Value
	// stability is empty if it is not known.
	stability v1alpha1.Stability
}

// page is what the metrics of one component say.
type page struct {
	// version is empty if the page does not tell.
	version string
	gates   map[string]gate
}

func (p *page) equal(other *page) bool {
	return p.version == other.version && maps.Equal(p.gates, other.gates)
}

var errNoFeatures = errors.New("the page has no metric " + featureMetric + ", which Kubernetes components have since 1.26; see that it is the /metrics of one")

// parsePage reads a page in the text format. What is wrong with single gates, which are left out, is returned as problems. A
// page is read whole or not at all.
func parsePage(text io.Reader) (read *page, problems []string, err error) {
	wanted, err := wantedLines(text)
	if err != nil {
		return nil, nil, fmt.Errorf("read metrics: %w", err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(wanted)
	if err != nil {
		return nil, nil, fmt.Errorf("parse metrics: %w", err)
	}
	read = &page{gates: map[string]gate{}}
	for _, metric := range families[buildMetric].GetMetric() {
		for _, label := range metric.GetLabel() {
			if label.GetName() == "git_version" {
				read.version = shorten(label.GetValue(), maxVersionLength)
			}
		}
	}
	features := families[featureMetric].GetMetric()
	if len(features) == 0 {
		return nil, nil, errNoFeatures
	}
	for _, metric := range features {
		var name, stage string
		for _, label := range metric.GetLabel() {
			switch label.GetName() {
			case "name":
				name = label.GetValue()
			case "stage":
				stage = label.GetValue()
			}
		}
		value := metric.GetGauge().GetValue()
		if metric.GetGauge() == nil {
			value = metric.GetUntyped().GetValue()
		}
		if name == "AllAlpha" || name == "AllBeta" {
			continue
		}
		if problem := read.add(name, stage, value); problem != "" {
			problems = append(problems, problem)
		}
	}
	slices.Sort(problems)
	return read, problems, nil
}

func (p *page) add(name, stage string, value float64) (problem string) {
	if len(name) > maxGateLength || !gateName.MatchString(name) {
		return fmt.Sprintf("%.100q cannot be the name of a Feature", name)
	}
	if _, found := p.gates[name]; found {
		return fmt.Sprintf("%s is listed again with stage %q", name, stage)
	}
	stability, known := stabilities[stage]
	if !known {
		problem = fmt.Sprintf("%s has the unknown stage %q", name, stage)
	}
	switch value {
	case 0:
		p.gates[name] = gate{value: v1alpha1.ValueDisabled, stability: stability}
	case 1:
		p.gates[name] = gate{value: v1alpha1.ValueEnabled, stability: stability}
	default:
		return fmt.Sprintf("%s has the value %v", name, value)
	}
	return problem
}

// wantedLines is the part of a page that is about features. A busy kube-apiserver's page has tens of megabytes, of which this is
// all that gets parsed.
func wantedLines(text io.Reader) (*bytes.Buffer, error) {
	wanted := &bytes.Buffer{}
	reader := bufio.NewReaderSize(text, maxLine)
	for continued := false; ; {
		line, err := reader.ReadSlice('\n')
		switch {
		case errors.Is(err, io.EOF):
			if !continued && isWanted(line) {
				// A page ends with a line's end; the parser refuses what does not.
				return nil, io.ErrUnexpectedEOF
			}
			return wanted, nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
		if !continued && isWanted(line) {
			if err != nil || wanted.Len()+len(line) > maxWanted {
				return nil, errors.New("there is more about features than can be")
			}
			_, _ = wanted.Write(line)
		}
		continued = err != nil
	}
}

func isWanted(line []byte) bool {
	for _, comment := range []string{"# TYPE ", "# HELP "} {
		line = bytes.TrimPrefix(line, []byte(comment))
	}
	for _, name := range []string{featureMetric, buildMetric} {
		if rest, found := bytes.CutPrefix(line, []byte(name)); found && len(rest) > 0 && (rest[0] == '{' || rest[0] == ' ') {
			return true
		}
	}
	return false
}

// shorten cuts text to what the API takes.
func shorten(text string, limit int) string {
	runes := []rune(strings.ToValidUTF8(text, ""))
	return string(runes[:min(len(runes), limit)])
}
