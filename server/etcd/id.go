// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/google/uuid"
)

// identity is how the id of a data directory looks.
var identity = regexp.MustCompile(`^[0-9a-f]{32}\n$`)

// directoryID returns the id of a data directory, which is made up once. The caller holds the directory's lock.
func directoryID(dir string) (string, error) {
	path := filepath.Join(dir, "id")
	content, err := os.ReadFile(path)
	switch {
	case err == nil && !identity.Match(content):
		return "", fmt.Errorf("%s does not hold the id of the data directory but %.40q; delete the file, and a new id is made", path, content)
	case err == nil:
		return string(content[:len(content)-1]), nil
	case !errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("read the id of the data directory: %w", err)
	}
	random := uuid.New()
	id := hex.EncodeToString(random[:])
	temporary := path + ".new"
	if err := writeSynced(temporary, id+"\n"); err != nil {
		return "", fmt.Errorf("write the id of the data directory: %w", err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return "", fmt.Errorf("write the id of the data directory: %w", err)
	}
	return id, nil
}
