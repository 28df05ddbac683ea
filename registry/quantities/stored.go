// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package quantities

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// protobufPrefix begins each stored object in protobuf.
var protobufPrefix = []byte("k8s\x00")

// quoted matches texts in JSON that ParseQuantity takes for numbers with exponents.
var quoted = regexp.MustCompile(`"[+-]?[0-9.]+[eE][+-]?[0-9]+"`)

// Codec limits the exponents of quantities that another codec decodes.
func Codec(codec runtime.Codec) runtime.Codec { return limited{codec} }

type limited struct{ runtime.Codec }

// Decode implements runtime.Decoder.
func (l limited) Decode(data []byte, defaults *schema.GroupVersionKind, into runtime.Object) (runtime.Object, *schema.GroupVersionKind, error) {
	return l.Codec.Decode(limit(data), defaults, into)
}

// limit returns the data with the exponents that are out of range replaced by the nearest that is not. Texts keep their lengths.
func limit(data []byte) []byte {
	copied := false
	each := func(do func([]byte)) {
		if bytes.HasPrefix(data, protobufPrefix) {
			eachText(data[len(protobufPrefix):], maxLevels, do)
			return
		}
		for _, at := range quoted.FindAllIndex(data, -1) {
			do(data[at[0]+1 : at[1]-1])
		}
	}
	each(func(text []byte) { copied = copied || CheckText(string(text)) != nil })
	if !copied {
		return data
	}
	data = bytes.Clone(data)
	each(func(text []byte) {
		match := pattern.FindSubmatchIndex(text)
		if match == nil || inRange(string(text[match[4]:match[5]])) {
			return
		}
		exponent := text[match[4]:match[5]]
		if exponent[0] == '-' || exponent[0] == '+' {
			exponent = exponent[1:]
		}
		zeros := fmt.Sprintf("%0*d", len(exponent), maxExponent)
		if len(zeros) > len(exponent) {
			zeros = strings.Repeat("9", len(exponent)) // a digit or none, which is in range
		}
		copy(exponent, zeros)
	})
	return data
}

// eachText calls do for each field of a protobuf message that may be a text, in the message and in those within it. As the generated
// decoders do, it reads fields one after the other up to the first mistake.
func eachText(message []byte, levels int, do func([]byte)) {
	const varint, fixed64, delimited, beginGroup, endGroup, fixed32 = 0, 1, 2, 3, 4, 5
	for len(message) > 0 {
		tag, read := uvarint(message)
		if read == 0 {
			return
		}
		message = message[read:]
		skip := 0
		switch tag & 7 {
		case varint:
			if _, skip = uvarint(message); skip == 0 {
				return
			}
		case fixed64:
			skip = 8
		case fixed32:
			skip = 4
		case beginGroup, endGroup:
		case delimited:
			length, read := uvarint(message)
			message = message[read:]
			if read == 0 || length > uint64(len(message)) {
				return
			}
			do(message[:length])
			if levels > 1 {
				eachText(message[:length], levels-1, do)
			}
			skip = int(length) //nolint:gosec // it is at most the length of the message
		default:
			return
		}
		if skip > len(message) {
			return
		}
		message = message[skip:]
	}
}

// uvarint reads a number as the generated decoders do, which lose bits above 64. It returns 0 bytes for one that does not end.
func uvarint(message []byte) (value uint64, read int) {
	for shift := 0; shift < 64 && read < len(message); shift += 7 {
		b := message[read]
		read++
		value |= uint64(b&0x7f) << shift
		if b < 0x80 {
			return value, read
		}
	}
	return 0, 0
}
