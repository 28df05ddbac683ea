// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package requestbody

import (
	"encoding/json"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// maxLevels is how deep a patch may be, and how deep it may reach into an object.
	maxLevels = 128
	// maxCopied is how many bytes may have to be copied for a patch.
	maxCopied = 64 << 20
	// maxOperations is how many a JSON patch may have, as with the library.
	maxOperations = 10_000
)

// check returns what is too much of a patch. What is no patch at all is left to who applies it.
func check(kind types.PatchType, patch []byte) error {
	levels, elements, copied := measure(patch)
	switch {
	case levels > maxLevels:
		return fmt.Errorf("the patch has more than %d levels; patch less of the object, or use server-side apply", maxLevels)
	case copied > maxCopied:
		return fmt.Errorf("the patch is too large for how deep it is; patch less of the object, or use server-side apply")
	case kind != types.JSONPatchType:
		return nil
	case elements > maxOperations:
		return fmt.Errorf("the allowed maximum operations in a JSON patch is %d, got %d", maxOperations, elements)
	}
	return checkPaths(patch)
}

// measure returns the levels of a document, the elements of its first one, and the sum over its bytes of the levels they are in.
func measure(document []byte) (levels, elements, copied int) {
	level, text, escaped := 0, false, false
	for _, b := range document {
		copied += level
		switch {
		case escaped:
			escaped = false
		case text:
			escaped, text = b == '\\', b != '"'
		case b == '"':
			text = true
		case b == '{' || b == '[':
			level++
			levels = max(levels, level)
		case b == '}' || b == ']':
			level--
		case b == ',' && level == 1:
			elements++
		}
	}
	return levels, elements + 1, copied
}

// checkPaths judges how deep the operations of a JSON patch reach into the object.
func checkPaths(patch []byte) error {
	// Operations are read as the library does: of keys that are there twice, the last one counts, and case matters.
	var operations []map[string]json.RawMessage
	if json.Unmarshal(patch, &operations) != nil {
		return nil
	}
	for _, operation := range operations {
		for _, key := range []string{"path", "from"} {
			var path string
			if json.Unmarshal(operation[key], &path) == nil && strings.Count(path, "/") > maxLevels {
				return fmt.Errorf("the %s of an operation has more than %d parts; write the object as a whole instead", key, maxLevels)
			}
		}
	}
	return nil
}
