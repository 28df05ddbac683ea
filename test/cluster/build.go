// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
)

// Version is the Kubernetes release that test/kube/go.mod pins.
const Version = "v1.37.1"

// pinned finds the requirement in go.mod.
var pinned = regexp.MustCompile(`(?m)^\s*k8s\.io/kubernetes ` + regexp.QuoteMeta(Version) + `( |$)`)

// components are what is built, by the tools of test/kube/go.mod. A hollow kubelet is kubemark.
var components = []struct{ name, tool string }{
	{"etcd", "go.etcd.io/etcd/server/v3"},
	{"kube-apiserver", "k8s.io/kubernetes/cmd/kube-apiserver"},
	{"kube-controller-manager", "k8s.io/kubernetes/cmd/kube-controller-manager"},
	{"kube-scheduler", "k8s.io/kubernetes/cmd/kube-scheduler"},
	{"kubemark", "k8s.io/kubernetes/cmd/kubemark"},
}

// Build returns the directory with the components. It compiles them, for some minutes, where that has not been done yet;
// another process that is at it is waited for. root is the repository.
func Build(ctx context.Context, root string, progress io.Writer) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find the cache directory: %w", err)
	}
	bin := filepath.Join(cache, "annex", "kube-"+Version)
	if err = os.MkdirAll(bin, 0o755); err != nil {
		return "", fmt.Errorf("build Kubernetes: %w", err)
	}
	unlock, err := lock(filepath.Join(bin, "lock"))
	if err != nil {
		return "", fmt.Errorf("build Kubernetes: %w", err)
	}
	defer unlock()
	module := filepath.Join(root, "test", "kube")
	stamp, err := stampOf(module)
	if err != nil {
		return "", fmt.Errorf("build Kubernetes: %w", err)
	}
	stampFile := filepath.Join(bin, "stamp")
	if found, _ := os.ReadFile(stampFile); string(found) == stamp && complete(bin) {
		return bin, nil
	}
	_, _ = fmt.Fprintf(progress, "building Kubernetes %s into %s, once; on two cores this takes about eight minutes\n", Version, bin)
	if err := os.Remove(stampFile); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("build Kubernetes: %w", err)
	}
	for _, component := range components {
		// Others on the machine go first.
		args := append([]string{"-n", "5", "go"}, buildFlags()...)
		command := exec.CommandContext(ctx, "nice", append(args, "-o", filepath.Join(bin, component.name), component.tool)...)
		command.Dir = module
		if output, err := command.CombinedOutput(); err != nil {
			return "", fmt.Errorf("build %s: %w\n%s", component.name, err, output)
		}
	}
	if err := os.WriteFile(stampFile, []byte(stamp), 0o644); err != nil {
		return "", fmt.Errorf("build Kubernetes: %w", err)
	}
	return bin, nil
}

func buildFlags() []string {
	version := ""
	for _, library := range []string{"k8s.io/component-base/version", "k8s.io/client-go/pkg/version"} {
		version += " -X " + library + ".gitVersion=" + Version
	}
	return []string{"build", "-p", "2", "-buildvcs=false", "-ldflags", "-s -w" + version}
}

// stampOf identifies all that decides what the binaries are.
func stampOf(module string) (string, error) {
	hash := sha256.New()
	for _, name := range []string{"go.mod", "go.sum"} {
		content, err := os.ReadFile(filepath.Join(module, name))
		if err != nil {
			return "", err
		}
		if name == "go.mod" && !pinned.Match(content) {
			return "", fmt.Errorf("%s does not require k8s.io/kubernetes %s, which test/cluster/build.go names; let the two agree", filepath.Join(module, name), Version)
		}
		_, _ = hash.Write(content)
	}
	_, _ = fmt.Fprintln(hash, runtime.Version(), runtime.GOOS, runtime.GOARCH, strings.Join(buildFlags(), " "))
	return fmt.Sprintf("%x\n", hash.Sum(nil)), nil
}

func complete(bin string) bool {
	for _, component := range components {
		if _, err := os.Stat(filepath.Join(bin, component.name)); err != nil {
			return false
		}
	}
	return true
}

// lock waits for the file's lock. It ends with the process at the latest.
func lock(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		_ = file.Close()
		return nil, err
	}
	return func() { _ = file.Close() }, nil
}
