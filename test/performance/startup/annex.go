// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/kube-annex/annex/test/framework/cluster"
)

// server is one that is started on data of its own, again and again.
type server interface {
	name() string
	// start returns how long it took from exec until the server was ready and all its APIServices were available.
	start(ctx context.Context) (time.Duration, error)
	// phases are what the server has said about its start, in milliseconds.
	phases() map[string]float64
	processes() map[string]int
	metrics(ctx context.Context) (map[string]float64, error)
	stop() error
	// remove ends what is left, and removes the data.
	remove()
}

// annex is `annex up`.
type annex struct {
	settings settings
	dir      string
	port     int
	process  *cluster.Process
	probe    *probe
}

func (s settings) newAnnex() (server, error) {
	dir, err := os.MkdirTemp(s.dir, "annex-")
	if err != nil {
		return nil, err
	}
	port, err := cluster.FreePort()
	return &annex{settings: s, dir: dir, port: port}, err
}

func (a *annex) name() string { return nameAnnex }

func (a *annex) start(ctx context.Context) (time.Duration, error) {
	if err := os.RemoveAll(a.log()); err != nil {
		return 0, err
	}
	began := time.Now()
	process, err := cluster.StartProcess(nameAnnex, a.log(), a.settings.annex,
		"up", "--data-dir="+a.dir, "--secure-port="+strconv.Itoa(a.port), "--extension-port=0")
	if err != nil {
		return 0, err
	}
	a.process = process
	a.probe = &probe{process: process, connect: a.config}
	took, err := a.probe.untilAvailable(ctx, began, 3)
	if err != nil {
		return 0, err
	}
	// It says how long everything took a moment later.
	return took, process.AwaitLog(ctx, startTimeout, "export KUBECONFIG=")
}

// config is there as soon as the process has written its kubeconfig.
func (a *annex) config() (*rest.Config, error) {
	return clientcmd.BuildConfigFromFlags("", filepath.Join(a.dir, "kubeconfig"))
}

func (a *annex) log() string { return filepath.Join(a.settings.dir, filepath.Base(a.dir)+".log") }

// phases are the parts of a start, by which the process says how long each took. The two servers start side by side.
var phases = []string{"etcd", "certificates", "control plane", "extension apiserver", "apiservices"}

var phaseLine = regexp.MustCompile(`(?m)^([a-z ]+): ready in (\d+) ms`)

func (a *annex) phases() map[string]float64 {
	found := map[string]float64{}
	for _, line := range phaseLine.FindAllStringSubmatch(a.process.Log(), -1) {
		milliseconds, err := strconv.ParseFloat(line[2], 64)
		if err == nil {
			found[line[1]] = milliseconds
		}
	}
	return found
}

func (a *annex) processes() map[string]int { return map[string]int{nameAnnex: a.process.Pid()} }

func (a *annex) metrics(ctx context.Context) (map[string]float64, error) { return a.probe.metrics(ctx) }

func (a *annex) stop() error {
	a.probe.close()
	return a.process.Stop()
}

func (a *annex) remove() {
	if a.process != nil {
		a.process.Kill()
	}
	_ = os.RemoveAll(a.dir)
}
