// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"syscall"

	"k8s.io/client-go/rest"
)

// smallBuffer is what the kernel is asked to keep for one who never reads; it keeps some more.
const smallBuffer = 4096

// neverRead opens a watch of everything, from the beginning, and reads nothing of it.
func (p *peer) neverRead(ctx context.Context) (net.Conn, error) {
	security, err := rest.TLSConfigFor(p.config)
	if err != nil {
		return nil, err
	}
	security.NextProtos = []string{"http/1.1"}
	address, err := url.Parse(p.admin.base)
	if err != nil {
		return nil, err
	}
	dialer := tls.Dialer{NetDialer: &net.Dialer{Control: keepLittle}, Config: security}
	connection, err := dialer.DialContext(ctx, "tcp", address.Host)
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(connection, "GET %s?watch=1&resourceVersion=0 HTTP/1.1\r\nHost: %s\r\nAccept: %s\r\n\r\n", p.kind.path, address.Host, jsonType)
	if err != nil {
		_ = connection.Close()
		return nil, err
	}
	return connection, nil
}

// keepLittle has the kernel keep as little as it can of what is not read.
func keepLittle(_, _ string, connection syscall.RawConn) error {
	var set error
	err := connection.Control(func(socket uintptr) {
		set = syscall.SetsockoptInt(int(socket), syscall.SOL_SOCKET, syscall.SO_RCVBUF, smallBuffer)
	})
	return errors.Join(err, set)
}
