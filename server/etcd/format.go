// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package etcd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// format counts incompatible changes of what is in a data directory.
const format = 1

// checkFormat refuses a data directory that a newer version wrote, and notes the format in a new one.
func checkFormat(dir string) error {
	path := filepath.Join(dir, "version")
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return writeFormat(path)
	}
	if err != nil {
		return fmt.Errorf("read the format of the data directory: %w", err)
	}
	found, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil || found < 1 {
		return fmt.Errorf("%s does not hold a format number but %q; restore the file (this version writes %d) or choose another --data-dir", path, strings.TrimSpace(string(content)), format)
	}
	if found > format {
		return fmt.Errorf("data directory %s was written by a newer version of annex: it has format %d, and this version knows formats up to %d; use the newer version or choose another --data-dir", dir, found, format)
	}
	return nil
}

// writeFormat is atomic, so that neither a killed process nor a power failure leaves half of it.
func writeFormat(path string) error {
	temporary := path + ".new"
	if err := writeSynced(temporary, strconv.Itoa(format)+"\n"); err != nil {
		return fmt.Errorf("write the format of the data directory: %w", err)
	}
	if err := os.Rename(temporary, path); err != nil {
		return fmt.Errorf("write the format of the data directory: %w", err)
	}
	return nil
}

func writeSynced(path, content string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.WriteString(content)
	return errors.Join(err, file.Sync(), file.Close())
}
