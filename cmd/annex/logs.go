// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"

	"github.com/spf13/pflag"
	"google.golang.org/grpc/grpclog"

	"k8s.io/component-base/logs"
	logsapi "k8s.io/component-base/logs/api/v1"
)

// logging is the configuration of the process's log, which is shared by all that runs in it.
type logging struct {
	configuration *logsapi.LoggingConfiguration
}

func addLogging(fs *pflag.FlagSet) logging {
	l := logging{configuration: logsapi.NewLoggingConfiguration()}
	logsapi.AddFlags(l.configuration, fs)
	return l
}

// apply sends the log to the writer. It is called once, before anything runs.
func (l logging) apply(to io.Writer) error {
	// etcd's client says each reconnection through grpc's own log, in a format of its own.
	grpclog.SetLoggerV2(grpclog.NewLoggerV2(io.Discard, io.Discard, io.Discard))
	logs.InitLogs()
	err := logsapi.ValidateAndApplyWithOptions(l.configuration, &logsapi.LoggingOptions{ErrorStream: to, InfoStream: to}, nil)
	if err != nil {
		return fmt.Errorf("set up logging: %w", err)
	}
	keepBodiesOut()
	return nil
}

// logFile is a log that is opened with the first line: by then the data directory is locked, so that a second process,
// which is about to be refused, does not touch the log of the first. The log of the run before is kept beside it.
type logFile struct {
	path string
	open sync.Once
	to   io.Writer
}

func (f *logFile) Write(line []byte) (int, error) {
	f.open.Do(func() {
		f.to = os.Stderr
		if err := os.Rename(f.path, f.path+".old"); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return
		}
		if file, err := os.OpenFile(f.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600); err == nil {
			f.to = file
		}
	})
	return f.to.Write(line)
}
