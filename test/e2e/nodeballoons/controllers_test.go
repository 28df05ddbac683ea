// Copyright The Annex Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeballoons

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/kube-annex/annex/test/framework/cluster"
)

// overlay is what an administrator applies to have balloons.
const overlay = root + "/artifacts/deploy/balloons/"

var (
	// controllers is the process that runs, and controllersPort where its metrics are.
	controllers     *cluster.Process
	controllersPort int
)

// startControllers runs `annex controllers`, which gives up its Leases soon when it is killed.
func startControllers(mode string) error {
	kubeconfig, err := host.Identity(user)
	if err != nil {
		return err
	}
	if controllersPort, err = cluster.FreePort(); err != nil {
		return err
	}
	controllers, err = cluster.StartProcess("controllers", filepath.Join(dir, "controllers.log"), binary, "controllers",
		"--kubeconfig="+kubeconfig, "--bind-address=127.0.0.1", "--secure-port="+strconv.Itoa(controllersPort), "-v=2",
		"--cluster-id-source=None", "--leader-elect-lease-duration=8s", "--leader-elect-renew-deadline=6s", "--leader-elect-retry-period=500ms",
		"--node-balloons="+mode, "--node-balloon-image=example.com/pause:1", "--startup-taint="+startupTaint+":NoSchedule")
	return err
}

// allow gives the controllers the rights of the overlay, and nothing else of it.
func allow(ctx context.Context) error {
	objects, err := readObjects(overlay + "rights.yaml")
	if err != nil {
		return err
	}
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}}
	client := host.Kubernetes.RbacV1()
	for _, object := range objects {
		switch o := object.(type) {
		case *rbacv1.ClusterRole:
			_, err = client.ClusterRoles().Create(ctx, o, metav1.CreateOptions{})
		case *rbacv1.Role:
			_, err = client.Roles(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
		case *rbacv1.ClusterRoleBinding:
			o.Subjects = subjects
			_, err = client.ClusterRoleBindings().Create(ctx, o, metav1.CreateOptions{})
		case *rbacv1.RoleBinding:
			o.Subjects = subjects
			_, err = client.RoleBindings(o.Namespace).Create(ctx, o, metav1.CreateOptions{})
		default:
			err = fmt.Errorf("%T is no right", o)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// readObjects reads a file of manifests.
func readObjects(path string) ([]runtime.Object, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	decoder := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	var objects []runtime.Object
	for {
		document, err := decoder.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		object, _, err := scheme.Codecs.UniversalDeserializer().Decode(document, nil, nil)
		if runtime.IsMissingKind(err) {
			continue // The licence.
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		objects = append(objects, object)
	}
}
