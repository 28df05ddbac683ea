// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	apiversion "k8s.io/apimachinery/pkg/version"
	basecompatibility "k8s.io/component-base/compatibility"
	baseversion "k8s.io/component-base/version"
)

// effectiveVersion is a Kubernetes version as behaviour goes, and tells clients the version that this binary was built as.
type effectiveVersion struct {
	basecompatibility.EffectiveVersion
}

// NewEffectiveVersion returns the Kubernetes version whose behaviour the servers have. It never consults the component
// registry of the process, which is shared with whatever else runs in it.
func NewEffectiveVersion() basecompatibility.EffectiveVersion {
	binary := version.MustParse(baseversion.DefaultKubeBinaryVersion)
	return effectiveVersion{basecompatibility.NewEffectiveVersion(binary, false, binary, binary.SubtractMinor(1))}
}

// Info is what /version answers.
func (v effectiveVersion) Info() *apiversion.Info {
	info := v.EffectiveVersion.Info()
	info.GitVersion = Version()
	if strings.HasPrefix(info.GitCommit, "$Format") {
		info.GitCommit = ""
	}
	return info
}

// Version returns the version this binary was built as: what the linker was told
// (-X k8s.io/component-base/version.gitVersion=…), or the Kubernetes version with "annex" as build metadata.
func Version() string {
	if built := baseversion.Get().GitVersion; !strings.HasPrefix(built, "v0.0.0-master") {
		return built
	}
	return "v" + baseversion.DefaultKubeBinaryVersion + ".0+annex"
}
