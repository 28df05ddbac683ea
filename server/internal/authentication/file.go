// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package authentication

import (
	"errors"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
	"k8s.io/apiserver/pkg/authentication/cel"
)

// file is an AuthenticationConfiguration and the bytes that it was read from.
type file struct {
	content string
	*apiserver.AuthenticationConfiguration
}

// read reads and judges the file of --authentication-config.
func read(path string, own []string) (*file, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("--authentication-config: %w", err)
	}
	f, err := parse(content, own)
	if err != nil {
		return nil, fmt.Errorf("--authentication-config %s is not a valid AuthenticationConfiguration: %w", path, err)
	}
	return f, nil
}

func parse(content []byte, own []string) (*file, error) {
	if len(content) == 0 {
		return nil, errors.New("it is empty")
	}
	scheme := runtime.NewScheme()
	install.Install(scheme)
	decoded, err := runtime.Decode(serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder(), content)
	if err != nil {
		return nil, err
	}
	configuration, ok := decoded.(*apiserver.AuthenticationConfiguration)
	if !ok {
		return nil, fmt.Errorf("its kind is %T", decoded)
	}
	if err := validation.ValidateAuthenticationConfiguration(cel.NewDefaultCompiler(), configuration, own).ToAggregate(); err != nil {
		return nil, err
	}
	return &file{content: string(content), AuthenticationConfiguration: configuration}, nil
}
