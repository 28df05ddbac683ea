// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package clusteridentity_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/kube-annex/annex/apis/multicluster/v1alpha1"
	"github.com/kube-annex/annex/clusteridentity"
	"github.com/kube-annex/annex/test/framework"
)

const (
	patience = time.Minute
	idClaim  = "id.k8s.io"
	setClaim = "clusterset.k8s.io"
)

// cluster is a server whose claims a test changes.
type cluster struct {
	*framework.Server
	t *testing.T
}

func (c *cluster) create(name, value string) *v1alpha1.ClusterClaim {
	c.t.Helper()
	claim := &v1alpha1.ClusterClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.ClusterClaimSpec{Value: value}}
	created, err := c.Annex.MulticlusterV1alpha1().ClusterClaims().Create(c.t.Context(), claim, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return created
}

func (c *cluster) rename(id string) {
	c.t.Helper()
	patch := fmt.Sprintf(`{"spec":{"value":%q}}`, id)
	if _, err := c.Annex.MulticlusterV1alpha1().ClusterClaims().Patch(c.t.Context(), idClaim, types.MergePatchType, []byte(patch), metav1.PatchOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) remove(names ...string) {
	c.t.Helper()
	for _, name := range names {
		if err := c.Annex.MulticlusterV1alpha1().ClusterClaims().Delete(c.t.Context(), name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			c.t.Fatal(err)
		}
	}
}

// follow runs a source until the test ends, or the returned function is called.
func (c *cluster) follow(config *rest.Config) (source *clusteridentity.Source, stop func()) {
	source = clusteridentity.New()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- source.Run(ctx, config) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				c.t.Errorf("Run: %v", err)
			}
		case <-time.After(patience):
			c.t.Error("Run did not return")
		}
	})
	c.t.Cleanup(stop)
	return source, stop
}

// until waits for an identity, and fails the test at one that cannot be.
func (c *cluster) until(source *clusteridentity.Source, want string) clusteridentity.Identity {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	for identity := range source.Changes(ctx) {
		check(c.t, identity)
		if identity.String() == want {
			return identity
		}
	}
	c.t.Fatalf("the cluster is %v, want %s; trouble: %v", source.Current(), want, source.Trouble())
	return clusteridentity.Identity{}
}

// check knows that in these tests the id n is only ever in the sets of-n.
func check(t *testing.T, identity clusteridentity.Identity) {
	t.Helper()
	if identity.IsMember() && !strings.HasPrefix(identity.ClusterSet, "of-"+identity.ID+".") || identity.IsMember() != (identity.Membership != "") {
		t.Errorf("%#v has never been", identity)
	}
}

// TestFollowing has one server, whose claims are changed by one subtest after the other.
func TestFollowing(t *testing.T) {
	server := framework.Start(t)
	for _, test := range []struct {
		name string
		run  func(*cluster)
	}{
		{"from nothing to a member and back", testLife},
		{"a watch that is behind shows no pair that has never been", testLag},
		{"racing moves from set to set", testMoves},
		{"the API may be away", testAway},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := &cluster{server, t}
			c.remove(setClaim, idClaim)
			test.run(c)
		})
	}
}

func testLife(c *cluster) {
	source, _ := c.follow(c.Config)
	c.until(source, "a cluster without an id")
	c.create(idClaim, "1")
	c.until(source, "1 in no set")
	c.create("example.com", "of no concern")
	set := c.create(setClaim, "of-1.example")
	first := c.until(source, "1 in of-1.example")
	if first.Membership != set.UID {
		c.t.Errorf("the membership is %s, want %s", first.Membership, set.UID)
	}
	// A claim that is held by a finalizer is there.
	patch := []byte(`{"metadata":{"finalizers":["example.com/hold"]}}`)
	claims := c.Annex.MulticlusterV1alpha1().ClusterClaims()
	if _, err := claims.Patch(c.t.Context(), setClaim, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		c.t.Fatal(err)
	}
	c.remove(setClaim)
	if got := source.Current(); got != first {
		c.t.Errorf("while a finalizer holds the set, the cluster is %v", got)
	}
	if _, err := claims.Patch(c.t.Context(), setClaim, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{}); err != nil {
		c.t.Fatal(err)
	}
	c.until(source, "1 in no set")
	c.create(setClaim, "of-1.example")
	if second := c.until(source, "1 in of-1.example"); second.Membership == first.Membership {
		c.t.Error("the second membership cannot be told from the first")
	}
	c.remove(setClaim, idClaim)
	c.until(source, "a cluster without an id")
}

// held are bodies of watches of one claim that can be made to come late.
type held struct {
	name string
	// most is how late each piece of a watch is, at random.
	most time.Duration

	mu   sync.Mutex
	open chan struct{}
}

func (h *held) hold() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open = make(chan struct{})
}

func (h *held) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	close(h.open)
	h.open = nil
}

func (h *held) wrap(inner http.RoundTripper) http.RoundTripper { return &heldTransport{inner, h} }

type heldTransport struct {
	inner http.RoundTripper
	held  *held
}

func (t *heldTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.inner.RoundTrip(request)
	query := request.URL.Query()
	if err == nil && query.Get("watch") != "" && strings.HasSuffix(query.Get("fieldSelector"), t.held.name) {
		response.Body = &heldBody{response.Body, t.held, request.Context()}
	}
	return response, err
}

type heldBody struct {
	io.ReadCloser
	held *held
	ctx  context.Context // that of the request; Read has none
}

func (b *heldBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.held.mu.Lock()
	open := b.held.open
	b.held.mu.Unlock()
	var late <-chan time.Time
	switch {
	case open != nil:
	case b.held.most > 0:
		late = time.After(rand.N(b.held.most))
	default:
		return n, err
	}
	select {
	case <-late:
	case <-open:
	case <-b.ctx.Done():
	}
	return n, err
}

func testLag(c *cluster) {
	for _, behind := range []string{idClaim, setClaim} {
		c.create(idClaim, "1")
		c.create(setClaim, "of-1.example")
		watch := &held{name: behind}
		config := rest.CopyConfig(c.Config)
		config.Wrap(watch.wrap)
		source, stop := c.follow(config)
		c.until(source, "1 in of-1.example")
		watch.hold()
		c.remove(setClaim)
		c.rename("2")
		c.create(setClaim, "of-2.example")
		if behind == idClaim {
			c.until(source, "2 in of-2.example")
		} else {
			// The change of the id is what tells: the set that is still shown must be over.
			ctx, cancel := context.WithTimeout(c.t.Context(), patience)
			for identity := range source.Changes(ctx) {
				check(c.t, identity)
				if identity.ID == "2" {
					break
				}
			}
			cancel()
		}
		watch.release()
		c.until(source, "2 in of-2.example")
		// The watch that has caught up changes nothing any more.
		c.remove(setClaim)
		c.until(source, "2 in no set")
		stop()
		c.remove(idClaim)
	}
}

func testMoves(c *cluster) {
	const moves = 60
	var sources []*clusteridentity.Source
	for _, late := range []*held{{}, {name: idClaim, most: 40 * time.Millisecond}, {name: setClaim, most: 40 * time.Millisecond}} {
		config := rest.CopyConfig(c.Config)
		config.Wrap(late.wrap)
		source, _ := c.follow(config)
		sources = append(sources, source)
	}
	watching, cancel := context.WithCancel(c.t.Context())
	var work sync.WaitGroup
	told := make([]int, len(sources))
	for i, source := range sources {
		work.Go(func() {
			for identity := range source.Changes(watching) {
				told[i]++
				check(c.t, identity)
			}
		})
	}
	seed := rand.Uint64()
	c.t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	c.create(idClaim, "0")
	for move := range moves {
		id := fmt.Sprint(move)
		if random.IntN(3) == 0 {
			c.remove(idClaim)
			c.create(idClaim, id)
		} else {
			c.rename(id)
		}
		c.create(setClaim, fmt.Sprintf("of-%d.example", move))
		if move < moves-1 {
			c.remove(setClaim)
		}
	}
	for _, source := range sources {
		c.until(source, fmt.Sprintf("%d in of-%d.example", moves-1, moves-1))
	}
	cancel()
	work.Wait()
	c.t.Logf("%d moves; told %v identities", moves, told)
}

// network is a way to the server that can be cut.
type network struct {
	mu    sync.Mutex
	away  bool
	conns []net.Conn
}

func (n *network) dial(ctx context.Context, kind, address string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, kind, address)
	n.mu.Lock()
	defer n.mu.Unlock()
	if err == nil && n.away {
		_ = conn.Close()
		return nil, errors.New("the API is away")
	}
	n.conns = append(n.conns, conn)
	return conn, err
}

func (n *network) set(away bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.away = away
	if away {
		for _, conn := range n.conns {
			_ = conn.Close()
		}
		n.conns = nil
	}
}

func testAway(c *cluster) {
	c.create(idClaim, "1")
	way := &network{}
	way.set(true)
	config := rest.CopyConfig(c.Config)
	config.Dial = way.dial
	source, stop := c.follow(config)
	trouble := func(want bool) {
		c.t.Helper()
		deadline, ticker := time.After(patience), time.NewTicker(10*time.Millisecond)
		defer ticker.Stop()
		for (source.Trouble() != nil) != want {
			select {
			case <-ticker.C:
			case <-deadline:
				c.t.Fatalf("the trouble is %v", source.Trouble())
			}
		}
	}
	trouble(true)
	if current := source.Current(); current.Known {
		c.t.Errorf("without the API, %v is known", current)
	}
	way.set(false)
	c.until(source, "1 in no set")
	trouble(false)

	way.set(true)
	c.create(setClaim, "of-1.example")
	trouble(true)
	if got := source.Current().String(); got != "1 in no set" {
		c.t.Errorf("without the API the cluster is %s", got)
	}
	way.set(false)
	c.until(source, "1 in of-1.example")
	// It ends without the API as well.
	way.set(true)
	stop()
}
