// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
)

// ephemeral are ports that no other test uses.
var ephemeral = []string{"--secure-port=0", "--extension-port=0"}

func TestBadInputEndsWithOneClearLine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	half := "apiVersion: v1\nkind: Config\nclusters:\n- name: a\n  cluster:\n    server: https://127.0.0.1:1\n    certificate-authority-data: LS0tLS1CRUdJTi"
	halfKubeconfig := writeFile(t, half, dir, "half-kubeconfig")
	garbledKubeconfig := writeFile(t, "{{{", dir, "garbled-kubeconfig")
	halfCertificate := writeFile(t, "-----BEGIN CERTIFICATE-----\nMIIB", dir, "half.crt")
	file := writeFile(t, "", dir, "a-file")
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	port := strconv.Itoa(taken.Addr().(*net.TCPAddr).Port)
	newer := filepath.Join(dir, "newer")
	writeFile(t, "999999\n", newer, "version")
	damaged := filepath.Join(dir, "damaged")
	writeFile(t, "-----BEGIN CERTIFICATE-----\nMIIB", damaged, "pki", "client-ca.crt")
	writeFile(t, "", damaged, "pki", "client-ca.key")

	for name, tc := range map[string]struct {
		args []string
		want []string
	}{
		"unknown command":                   {[]string{"bogus"}, []string{"bogus"}},
		"unknown flag":                      {[]string{"up", "--bogus"}, []string{"--bogus", "annex up --help"}},
		"unknown flag of apiserver":         {[]string{"apiserver", "--bogus"}, []string{"--bogus", "annex apiserver --help"}},
		"unknown flag of controllers":       {[]string{"controllers", "--bogus"}, []string{"--bogus", "annex controllers --help"}},
		"unknown gate":                      {[]string{"up", "--feature-gates=Bogus=true"}, []string{"--feature-gates", "Bogus", "FeatureCanary", "GracefulLeaderTransition", "NodeBalloonReclaimPolicy"}},
		"unknown gate of apiserver":         {[]string{"apiserver", "--feature-gates=Bogus=true"}, []string{"--feature-gates", "Bogus", "FeatureCanary"}},
		"unknown gate of the control plane": {[]string{"controlplane", "--feature-gates=Bogus=true"}, []string{"--feature-gates", "Bogus", "FeatureCanary"}},
		"unknown gate of controllers":       {[]string{"controllers", "--feature-gates=Bogus=true"}, []string{"--feature-gates", "Bogus", "FeatureCanary"}},
		"dynamic feature without namespace": {[]string{"up", "--dynamic-features=foo"}, []string{"--dynamic-features", `"foo" has no namespace`}},
		"dynamic feature that is unknown":   {[]string{"up", "--dynamic-features=annex-system/Bogus"}, []string{"--dynamic-features", "annex-system/Bogus is no feature gate", "FeatureCanary, GracefulLeaderTransition, NodeBalloonReclaimPolicy"}},
		"features of apiserver":             {[]string{"apiserver", "--features=annex-system/FeatureCanary=true", "--task-qps=-1"}, []string{"use --feature-gates=FeatureCanary=true", "--task-qps -1"}},
		"kubeconfig for nobody":             {[]string{"kubeconfig"}, []string{"--user is missing"}},
		"kubeconfig for administrators":     {[]string{"kubeconfig", "--user=eve", "--group=system:masters", "--expiration=1s"}, []string{"bind the user to the ClusterRole cluster-admin", "--expiration 1s is too short; set at least 10m0s"}},
		"half a signer":                     {[]string{"controlplane", "--cluster-signing-cert-file=x"}, []string{"--cluster-signing-key-file", "set both or none"}},
		"events for no time":                {[]string{"controlplane", "--event-ttl=0s"}, []string{"--event-ttl is 0s; set at least 1s"}},
		"quotas that are never right":       {[]string{"controlplane", "--resource-quota-sync-period=0s"}, []string{"--resource-quota-sync-period is 0s; set at least 1s"}},
		"no admission configuration":        {[]string{"controlplane", "--admission-control-config-file=" + filepath.Join(dir, "none")}, []string{"--admission-control-config-file", filepath.Join(dir, "none")}},
		"controllers of no cluster":         {[]string{"controllers"}, []string{"--kubeconfig is not set"}},
		"timings of leader election":        {[]string{"up", "--leader-elect-renew-deadline=20s", "--leader-elect-retry-period=0s"}, []string{"--leader-elect-renew-deadline 20s", "--leader-elect-retry-period is 0s"}},
		"namespace of the Leases":           {[]string{"controllers", "--kubeconfig=/nowhere", "--leader-elect-namespace=A"}, []string{`--leader-elect-namespace "A"`, "--kubeconfig /nowhere"}},
		"id of the cluster":                 {[]string{"up", "--cluster-id-source=Literal", "--cluster-id=A.b"}, []string{`--cluster-id "A.b" is not a cluster id`}},
		"id from nowhere":                   {[]string{"controllers", "--kubeconfig=/nowhere", "--cluster-id-source=literal"}, []string{`--cluster-id-source "literal" is none of KubeSystemUID, Literal and None`}},
		"id without a source":               {[]string{"up", "--cluster-id=a"}, []string{"--cluster-id is set", "--cluster-id-source=Literal"}},
		"source without an id":              {[]string{"up", "--cluster-id-source=Literal"}, []string{"--cluster-id is empty"}},
		"hub of up":                         {[]string{"up", "--clusterset-hub-kubeconfig=" + filepath.Join(dir, "none")}, []string{"--clusterset-hub-kubeconfig", filepath.Join(dir, "none"), "the kubeconfig file of the hub"}},
		"hub of apiserver":                  {[]string{"apiserver", "--kubeconfig=" + halfKubeconfig, "--clusterset-hub-kubeconfig=" + garbledKubeconfig}, []string{"--clusterset-hub-kubeconfig " + garbledKubeconfig + " cannot be used"}},
		"hub of controllers":                {[]string{"controllers", "--clusterset-hub-kubeconfig=" + halfKubeconfig}, []string{"--clusterset-hub-kubeconfig " + halfKubeconfig + " cannot be used"}},
		"flag of a wrong type":              {[]string{"up", "--secure-port=many"}, []string{"--secure-port", "many"}},
		"argument":                          {[]string{"up", "bogus"}, []string{"bogus"}},
		"taken port":                        {[]string{"up", "--data-dir=" + filepath.Join(dir, "1"), "--secure-port=" + port, "--extension-port=0"}, []string{"--secure-port " + port, "already in use"}},
		"taken extension port":              {[]string{"up", "--data-dir=" + filepath.Join(dir, "2"), "--secure-port=0", "--extension-port=" + port}, []string{"--extension-port " + port, "already in use"}},
		"one port for two":                  {[]string{"up", "--secure-port=7000", "--extension-port=7000"}, []string{"--secure-port", "--extension-port", "7000"}},
		"port out of range":                 {[]string{"up", "--secure-port=70000"}, []string{"--secure-port 70000"}},
		"data directory is a file":          {append([]string{"up", "--data-dir=" + file}, ephemeral...), []string{file}},
		"newer data directory":              {append([]string{"up", "--data-dir=" + newer}, ephemeral...), []string{newer, "newer"}},
		"damaged authority":                 {append([]string{"up", "--data-dir=" + damaged}, ephemeral...), []string{"client-ca.", "restore it from a backup"}},
		"etcd servers without URL":          {append([]string{"up", "--data-dir=" + filepath.Join(dir, "3"), "--etcd-servers=nonsense"}, ephemeral...), []string{"--etcd-servers", "nonsense"}},
		"etcd servers garbled":              {append([]string{"up", "--data-dir=" + filepath.Join(dir, "4"), "--etcd-servers=http://[::1"}, ephemeral...), []string{"--etcd-servers"}},
		"etcd certificate missing": {
			append([]string{"up", "--data-dir=" + filepath.Join(dir, "5"), "--etcd-servers=https://127.0.0.1:1", "--etcd-cafile=" + filepath.Join(dir, "none")}, ephemeral...),
			[]string{"--etcd-cafile"},
		},
		"two stores":               {[]string{"apiserver", "--kubeconfig=" + halfKubeconfig, "--etcd-servers=http://127.0.0.1:1", "--data-dir=" + dir}, []string{"--etcd-servers and --data-dir are both set; choose one"}},
		"no store":                 {[]string{"apiserver"}, []string{"neither --etcd-servers nor --data-dir is set", "--kubeconfig is not set"}},
		"missing kubeconfig":       {[]string{"apiserver", "--data-dir=" + dir, "--kubeconfig=" + filepath.Join(dir, "none")}, []string{"--kubeconfig", filepath.Join(dir, "none")}},
		"half-written kubeconfig":  {[]string{"apiserver", "--data-dir=" + dir, "--kubeconfig=" + halfKubeconfig}, []string{"--kubeconfig", halfKubeconfig}},
		"garbled kubeconfig":       {[]string{"apiserver", "--data-dir=" + dir, "--kubeconfig=" + garbledKubeconfig}, []string{"--kubeconfig", garbledKubeconfig}},
		"half-written certificate": {[]string{"apiserver", "--data-dir=" + dir, "--tls-cert-file=" + halfCertificate, "--tls-private-key-file=" + halfCertificate}, []string{"--tls-cert-file", halfCertificate}},
		"half-written authority":   {[]string{"apiserver", "--data-dir=" + dir, "--client-ca-file=" + halfCertificate}, []string{"--client-ca-file", halfCertificate}},
		"anyone as front proxy":    {[]string{"apiserver", "--data-dir=" + dir, "--requestheader-client-ca-file=" + halfCertificate}, []string{"--requestheader-allowed-names is empty"}},
		"unreadable audit policy":  {[]string{"apiserver", "--data-dir=" + dir, "--audit-log-path=-"}, []string{"--audit-policy-file"}},
		"flags of a generic server": {
			[]string{"controlplane", "--data-dir=" + dir, "--client-ca-file=" + halfCertificate, "--request-timeout=0s", "--disable-admission-plugins=Foo", "--authorization-webhook-version=v2", "--tracing-config-file=" + filepath.Join(dir, "none")},
			[]string{"--request-timeout is 0s", "no admission plugin Foo", "--authorization-webhook-version", "--tracing-config-file " + filepath.Join(dir, "none")},
		},
		"unknown logging format":    {[]string{"up", "--data-dir=" + filepath.Join(dir, "6"), "--logging-format=bogus"}, []string{"bogus"}},
		"control plane, two stores": {[]string{"controlplane", "--etcd-servers=http://127.0.0.1:1", "--data-dir=" + dir}, []string{"--etcd-servers and --data-dir are both set; choose one"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startAnnex(t, tc.args...)
			if code := p.wait(t); code == 0 {
				t.Error("exit code is 0")
			}
			checkOneClearLine(t, p.stderr.String(), tc.want...)
		})
	}
}

func TestSecondProcessOnADataDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	args := append([]string{"up", "--data-dir=" + dir}, ephemeral...)
	first := startAnnex(t, args...)
	first.waitFor(t, &first.stdout, `(?m)^ready in `)
	second := startAnnex(t, args...)
	if code := second.wait(t); code == 0 {
		t.Error("exit code of the second is 0")
	}
	checkOneClearLine(t, second.stderr.String(), dir, strconv.Itoa(first.command.Process.Pid))

	first.signal(t, syscall.SIGINT)
	if code := first.wait(t); code != 0 {
		t.Errorf("exit code of the first is %d, want 0; stderr:\n%s", code, first.stderr.String())
	}
	third := startAnnex(t, args...)
	third.waitFor(t, &third.stdout, `(?m)^ready in `)
	third.signal(t, syscall.SIGTERM)
	if code := third.wait(t); code != 0 {
		t.Errorf("exit code of the third is %d, want 0; stderr:\n%s", code, third.stderr.String())
	}
}

func TestDamagedLeafCertificatesAreMadeAnew(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	args := append([]string{"up", "--data-dir=" + dir}, ephemeral...)
	for round := range 2 {
		p := startAnnex(t, args...)
		p.waitFor(t, &p.stdout, `(?m)^ready in `)
		p.signal(t, syscall.SIGINT)
		if code := p.wait(t); code != 0 {
			t.Fatalf("exit code in round %d is %d; stderr:\n%s", round, code, p.stderr.String())
		}
		for _, name := range []string{"pki/control-plane.crt", "pki/extension.key", "pki/admin.crt", "kubeconfig"} {
			path := filepath.Join(dir, name)
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, content[:len(content)/2], 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestEtcdAwayAtStart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	client, peer := freeURL(t), freeURL(t)
	args := append([]string{"up", "--data-dir=" + filepath.Join(dir, "data"), "--log-file=-", "--etcd-servers=" + client.String()}, ephemeral...)
	p := startAnnex(t, args...)
	p.waitFor(t, &p.stderr, `(?i)etcd.*`+client.Host)

	config := embed.NewConfig()
	config.Dir = filepath.Join(dir, "etcd")
	config.LogLevel = "fatal"
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{client}, []url.URL{client}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{peer}, []url.URL{peer}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	etcd, err := embed.StartEtcd(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Close)
	p.waitFor(t, &p.stdout, `(?m)^ready in `)
	p.signal(t, syscall.SIGINT)
	if code := p.wait(t); code != 0 {
		t.Errorf("exit code is %d, want 0; stderr:\n%s", code, p.stderr.String())
	}
}

func TestSignalWhileWaitingForEtcd(t *testing.T) {
	t.Parallel()
	client := freeURL(t)
	args := append([]string{"up", "--log-file=-", "--etcd-servers=" + client.String()}, ephemeral...)
	p := startAnnex(t, args...)
	p.waitFor(t, &p.stderr, `(?i)etcd.*`+client.Host)
	p.signal(t, syscall.SIGTERM)
	if code := p.wait(t); code != 0 {
		t.Errorf("exit code is %d, want 0", code)
	}
	if strings.Contains(p.stderr.String(), "goroutine ") {
		t.Errorf("stderr has a stack trace:\n%s", p.stderr.String())
	}
}

func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	p := startAnnex(t, append([]string{"up"}, ephemeral...)...)
	p.waitFor(t, &p.stdout, `(?m)^ready in `)
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for ended := false; !ended; {
		select {
		case <-p.ended: // by the second signal, or because the stop was faster
			ended = true
		case <-ticker.C:
			_ = p.command.Process.Signal(syscall.SIGINT)
		}
	}
	if strings.Contains(p.stderr.String(), "goroutine ") {
		t.Errorf("stderr has a stack trace:\n%s", p.stderr.String())
	}
}

// freeURL returns an address at which nothing listens.
func freeURL(t *testing.T) url.URL {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return url.URL{Scheme: "http", Host: listener.Addr().String()}
}
