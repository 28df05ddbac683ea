// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

// Package quantities limits the text of quantities before resource.ParseQuantity reads it.
//
// A resource.Quantity is as large as its exponent, which is a few bytes of text: 1e-30000000 takes seconds of a core to parse, and
// 1e30000000 to compare and to print. kube-apiserver has no limit. Text that comes with a request is refused, and
// what is stored already is read with an exponent that is limited, so that it can be read, repaired and deleted.
//
// CEL has the same limits in the whole process, in policies, match conditions and rules of CustomResourceDefinitions; see LimitCEL.
//
// This package is not a stable API.
package quantities

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/cbor/direct"
	"sigs.k8s.io/yaml"
)

const (
	// maxLength limits a quantity in bytes; an int64 with nine decimal places has 30.
	maxLength = 64
	// maxExponent limits an exponent on both sides of 0. The largest int64 is below 1e19, and the smallest step of a quantity is 1e-9.
	maxExponent = 30
	// maxLevels limits how deep messages are searched: an object, its spec, an entry of a map, a quantity and its text are five levels.
	maxLevels = 12
)

// resources lists what has quantities.
var resources = map[schema.GroupResource]bool{
	{Resource: "resourcequotas"}:                     true,
	{Group: "node.k8s.io", Resource: "nodeballoons"}: true,
}

// InResource reports whether objects of a resource have quantities.
func InResource(resource schema.GroupResource) bool { return resources[resource] }

// pattern matches what ParseQuantity takes for a number with an exponent, and begins to compute.
var pattern = regexp.MustCompile(`^[+-]?[0-9.]+([eE])([+-]?[0-9]+)$`)

// number matches any number that ParseQuantity reads.
var number = regexp.MustCompile(`^[+-]?[0-9.]+[eEinumkKMGTP]*[+-]?[0-9]*$`)

// CheckText reports a text that would be expensive as a quantity. Text that is no quantity is no mistake here.
func CheckText(text string) error {
	text = strings.TrimSpace(text)
	if len(text) > maxLength && number.MatchString(text) {
		return lengthError(text)
	}
	if match := pattern.FindStringSubmatch(text); match != nil && !inRange(match[2]) {
		return fmt.Errorf("the quantity %s has an exponent that is out of range; write one between -%d and %d", text, maxExponent, maxExponent)
	}
	return nil
}

func lengthError(text string) error {
	return fmt.Errorf("a quantity has %d characters; write it with at most %d", len(text), maxLength)
}

func inRange(exponent string) bool {
	value, err := strconv.ParseInt(exponent, 10, 64)
	return err == nil && -maxExponent <= value && value <= maxExponent
}

// CheckBody reports a quantity in the body of a request, whether an object or a patch, that would be expensive. Bodies that cannot be
// decoded, and media types that are not known, are left to what decodes them.
func CheckBody(contentType string, body []byte) error {
	mediaType, _, _ := strings.Cut(contentType, ";")
	switch mediaType = strings.ToLower(strings.TrimSpace(mediaType)); {
	case mediaType == "", strings.HasSuffix(mediaType, "json"):
		return checkJSON(body)
	case strings.HasSuffix(mediaType, "yaml"):
		converted, err := yaml.YAMLToJSON(body)
		if err != nil {
			return nil //nolint:nilerr // the decoder reports it
		}
		return checkJSON(converted)
	case strings.Contains(mediaType, "cbor"):
		var value any
		if err := direct.Unmarshal(body, &value); err != nil {
			return nil //nolint:nilerr // the decoder reports it
		}
		return checkValue(value)
	case mediaType == "application/vnd.kubernetes.protobuf":
		var err error
		eachText(bytes.TrimPrefix(body, protobufPrefix), maxLevels, func(text []byte) {
			if err == nil {
				err = CheckText(string(text))
			}
		})
		return err
	}
	return nil
}

func checkJSON(body []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	for {
		token, err := decoder.Token()
		if err != nil {
			return nil //nolint:nilerr // at the end, or the decoder reports it
		}
		switch value := token.(type) {
		case string:
			err = CheckText(value)
		case json.Number:
			err = CheckText(value.String())
		}
		if err != nil {
			return err
		}
	}
}

func checkValue(value any) error {
	switch value := value.(type) {
	case string:
		return CheckText(value)
	case []byte:
		return CheckText(string(value))
	case []any:
		for _, item := range value {
			if err := checkValue(item); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, item := range value {
			if err := checkValue(item); err != nil {
				return err
			}
		}
	}
	return nil
}
