// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package version has the version of the servers and of the Kubernetes API that they serve. It is not a stable API.
package version

import (
	"strings"

	utilversion "k8s.io/apimachinery/pkg/util/version"
	apiversion "k8s.io/apimachinery/pkg/version"
	basecompatibility "k8s.io/component-base/compatibility"
	baseversion "k8s.io/component-base/version"
)

// effectiveVersion is the emulated Kubernetes version. Its Info names the version of this binary.
type effectiveVersion struct {
	basecompatibility.EffectiveVersion
}

// NewEffective returns the Kubernetes version whose behaviour the servers have. It does not read the component registry, which other
// servers of the process share.
func NewEffective() basecompatibility.EffectiveVersion {
	binary := utilversion.MustParse(baseversion.DefaultKubeBinaryVersion)
	return effectiveVersion{basecompatibility.NewEffectiveVersion(binary, false, binary, binary.SubtractMinor(1))}
}

// Info returns the response of /version.
func (v effectiveVersion) Info() *apiversion.Info {
	info := v.EffectiveVersion.Info()
	info.GitVersion = Binary()
	if strings.HasPrefix(info.GitCommit, "$Format") {
		info.GitCommit = ""
	}
	return info
}

// Binary returns the version of this binary: the one that the linker has set (-X k8s.io/component-base/version.gitVersion=…), or the
// Kubernetes version with the build metadata "annex".
func Binary() string {
	if built := baseversion.Get().GitVersion; !strings.HasPrefix(built, "v0.0.0-master") {
		return built
	}
	return "v" + baseversion.DefaultKubeBinaryVersion + ".0+annex"
}
