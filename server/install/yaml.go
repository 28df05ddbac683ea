// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"
)

// WriteYAML writes the objects as kubectl apply reads them.
func WriteYAML(to io.Writer, objects []Object) error {
	var all bytes.Buffer
	for i, object := range objects {
		fields, err := content(object)
		if err != nil {
			return err
		}
		text, err := yaml.Marshal(fields.Object)
		if err != nil {
			return fmt.Errorf("encode %s: %w", object.GetName(), err)
		}
		if i > 0 {
			all.WriteString("---\n")
		}
		all.Write(text)
	}
	if _, err := to.Write(all.Bytes()); err != nil {
		return fmt.Errorf("write the objects: %w", err)
	}
	return nil
}
