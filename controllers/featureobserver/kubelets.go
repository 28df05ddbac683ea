// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package featureobserver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"

	"github.com/kube-annex/annex/controllers/leadership"
	"github.com/kube-annex/annex/internal/logonce"
)

const (
	kubeletComponent = "kubelet"

	// kubeletReaders is how many kubelets are read at a time.
	kubeletReaders = 16
	// nodePage is how many nodes are asked for at a time.
	nodePage = 500
)

// kubelets reads the pages of all kubelets, at their own ports.
type kubelets struct {
	nodes  corev1client.NodesGetter
	client *http.Client

	mu sync.Mutex
	// known is what is known of the kubelets of all nodes, by node; nil until nodes were listed.
	known map[string]*kubelet

	// logged is used by read only.
	logged logonce.Error
}

type kubelet struct {
	version string
	// page is nil until the kubelet was read.
	page *page
}

// view is what was seen so far.
func (k *kubelets) view() view {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.known == nil {
		return view{unread: []unread{{component: kubeletComponent}}}
	}
	var v view
	versions := map[string]bool{}
	for name, kubelet := range k.known {
		if kubelet.page == nil {
			versions[kubelet.version] = true
			continue
		}
		v.sightings = append(v.sightings, sighting{component: kubeletComponent, reporter: kubeletReporter(name), page: kubelet.page})
	}
	for version := range versions {
		v.unread = append(v.unread, unread{component: kubeletComponent, version: version})
	}
	return v
}

// kubeletReporter names the kubelet of a node.
func kubeletReporter(node string) string {
	return node[:min(len(node), maxReporterLength-len(metricsPath))] + metricsPath
}

// read reads the kubelets of all nodes once.
func (k *kubelets) read(ctx context.Context) {
	logger := klog.FromContext(ctx)
	nodes, err := k.list(ctx)
	if err != nil {
		k.failed(ctx, err, "Cannot list nodes; what was known of their kubelets stays", "list")
		return
	}
	k.mu.Lock()
	known := make(map[string]*kubelet, len(nodes))
	for name, node := range nodes {
		known[name] = &kubelet{version: node.version}
		if before := k.known[name]; before != nil {
			known[name].page = before.page
		}
	}
	k.known = known
	k.mu.Unlock()

	var reading sync.WaitGroup
	var mu sync.Mutex
	failures := map[string]error{}
	work := make(chan string)
	for range min(kubeletReaders, len(nodes)) {
		reading.Go(func() {
			for name := range work {
				err := leadership.Call(ctx, func(ctx context.Context) error { return k.readNode(ctx, name, nodes[name]) })
				if err != nil {
					mu.Lock()
					failures[name] = err
					mu.Unlock()
				}
			}
		})
	}
	for name := range nodes {
		work <- name
	}
	close(work)
	reading.Wait()
	if len(failures) == 0 {
		k.logged.ChangedText("")
		logger.V(2).Info("Read kubelets' feature gates", "kubelets", len(nodes))
		return
	}
	failed := slices.Sorted(maps.Keys(failures))
	k.failed(ctx, failures[failed[0]], "Cannot read kubelets' feature gates; what was known of them stays", fmt.Sprint(failed),
		"node", failed[0], "kubelets", len(nodes), "unreadable", len(failed))
}

// failed logs an error if other reads failed than the last time.
func (k *kubelets) failed(ctx context.Context, err error, message, reads string, details ...any) {
	if ctx.Err() == nil && k.logged.ChangedText(reads) {
		klog.FromContext(ctx).Error(err, message, details...)
	}
}

// node is where a node's kubelet is.
type node struct {
	version, address string
	port             int32
}

func (k *kubelets) list(ctx context.Context) (map[string]node, error) {
	nodes := map[string]node{}
	options := metav1.ListOptions{Limit: nodePage}
	for {
		list, err := k.nodes.Nodes().List(ctx, options)
		if err != nil {
			return nil, fmt.Errorf("list nodes: %w", err)
		}
		for i := range list.Items {
			item := &list.Items[i]
			n := node{version: shorten(item.Status.NodeInfo.KubeletVersion, maxVersionLength), port: item.Status.DaemonEndpoints.KubeletEndpoint.Port}
			for _, address := range slices.Backward(item.Status.Addresses) {
				if address.Type == corev1.NodeInternalIP {
					n.address = address.Address
				}
			}
			nodes[item.Name] = n
		}
		if options.Continue = list.Continue; options.Continue == "" {
			return nodes, nil
		}
	}
}

func (k *kubelets) readNode(ctx context.Context, name string, n node) error {
	if n.address == "" || n.port == 0 {
		return errors.New("the node's status has no InternalIP or no port of its kubelet")
	}
	address := "https://" + net.JoinHostPort(n.address, strconv.Itoa(int(n.port))) + metricsPath
	read, problems, err := readPage(ctx, k.client, address)
	if err != nil {
		return err
	}
	if read.version == "" {
		read.version = n.version
	}
	if read.version == "" {
		return errors.New("neither the page nor the node tells the kubelet's version")
	}
	if len(problems) > 0 {
		klog.FromContext(ctx).V(2).Info("Ignoring what a kubelet says about some feature gates", "node", name, "problems", problems)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	// Kubelets of a cluster are mostly alike, and one page for all of them is enough.
	for _, other := range k.known {
		if other.page != nil && other.page.equal(read) {
			read = other.page
			break
		}
	}
	k.known[name].page = read
	return nil
}
