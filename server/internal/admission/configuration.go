// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	policyconfig "k8s.io/apiserver/pkg/admission/plugin/policy/config"
	webhookconfig "k8s.io/apiserver/pkg/admission/plugin/webhook/config"
	"k8s.io/apiserver/pkg/apis/apiserver"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"k8s.io/apiserver/pkg/util/webhook"
)

// configurations are the plugins' own, by name.
type configurations map[string][]byte

// ConfigFor implements admission.ConfigProvider.
func (c configurations) ConfigFor(plugin string) (io.Reader, error) {
	content, ok := c[plugin]
	if !ok {
		return nil, nil
	}
	return bytes.NewReader(content), nil
}

// configurations reads the file, and every file that it names. The library's own reader ends the process where one of them is missing.
func (o *Options) configurations() (configurations, error) {
	if o.ConfigFile == "" {
		return nil, nil
	}
	content, err := os.ReadFile(o.ConfigFile)
	if err != nil {
		return nil, fmt.Errorf("--%s: %w", configFlag, err)
	}
	all, err := decode(content)
	if err != nil {
		return nil, fmt.Errorf("--%s %s: %w; give an AdmissionConfiguration of %s", configFlag, o.ConfigFile, err, apiserverv1.SchemeGroupVersion)
	}
	read, names := configurations{}, o.names(nil)
	for _, plugin := range all.Plugins {
		if !slices.Contains(names, plugin.Name) {
			return nil, fmt.Errorf("--%s %s: there is no admission plugin %s; there are %v", configFlag, o.ConfigFile, plugin.Name, names)
		}
		switch {
		case plugin.Configuration != nil:
			read[plugin.Name] = plugin.Configuration.Raw
		case plugin.Path != "":
			path := plugin.Path
			if !filepath.IsAbs(path) {
				path = filepath.Join(filepath.Dir(o.ConfigFile), path)
			}
			if read[plugin.Name], err = os.ReadFile(path); err != nil {
				return nil, fmt.Errorf("--%s %s: the configuration of %s: %w", configFlag, o.ConfigFile, plugin.Name, err)
			}
		}
	}
	for name := range read {
		if err := read.check(name); err != nil {
			return nil, fmt.Errorf("--%s %s: the configuration of %s: %w", configFlag, o.ConfigFile, name, err)
		}
	}
	return read, nil
}

func decode(content []byte) (*apiserver.AdmissionConfiguration, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{apiserver.AddToScheme, apiserverv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("make a scheme: %w", err)
		}
	}
	object, err := runtime.Decode(serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(), content)
	if err != nil {
		return nil, err
	}
	decoded, ok := object.(*apiserver.AdmissionConfiguration)
	if !ok {
		return nil, fmt.Errorf("it is a %s", object.GetObjectKind().GroupVersionKind().Kind)
	}
	return decoded, nil
}

// check reads a configuration as its plugin does, which may be made long after the start.
func (c configurations) check(plugin string) error {
	reader := bytes.NewReader(c[plugin])
	var manifests string
	switch plugin {
	case MutatingAdmissionWebhook, ValidatingAdmissionWebhook:
		read, err := webhookconfig.LoadConfig(reader)
		if err != nil {
			return err
		}
		if _, err = webhook.NewDefaultAuthenticationInfoResolver(read.KubeConfigFile); err != nil {
			return fmt.Errorf("kubeConfigFile: %w", err)
		}
		manifests = read.StaticManifestsDir
	case MutatingAdmissionPolicy:
		read, err := policyconfig.LoadMutatingConfig(reader)
		if err != nil {
			return err
		}
		manifests = read.StaticManifestsDir
	case ValidatingAdmissionPolicy:
		read, err := policyconfig.LoadValidatingConfig(reader)
		if err != nil {
			return err
		}
		manifests = read.StaticManifestsDir
	}
	if manifests != "" {
		return fmt.Errorf("staticManifestsDir is not supported; configure webhooks and policies through the API")
	}
	return nil
}
