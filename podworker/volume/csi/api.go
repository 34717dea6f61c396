package csi

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Getter reads objects of one kind. The typed clients of client-go are Getters. Errors
// have to be those of the server, so that IsNotFound of k8s.io/apimachinery's package
// api/errors tells what does not exist.
type Getter[T any] interface {
	Get(ctx context.Context, name string, opts metav1.GetOptions) (*T, error)
}

// Claims are the PersistentVolumeClaims of one namespace. Patch is needed only for
// volumes that grow.
type Claims interface {
	Getter[corev1.PersistentVolumeClaim]
	Patch(ctx context.Context, name string, kind types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (*corev1.PersistentVolumeClaim, error)
}

// Nodes are the Nodes, of which one is read and patched.
type Nodes interface {
	Getter[corev1.Node]
	Patch(ctx context.Context, name string, kind types.PatchType, data []byte, opts metav1.PatchOptions, subresources ...string) (*corev1.Node, error)
}

// CSINodes are the CSINodes, of which one is kept.
type CSINodes interface {
	Getter[storagev1.CSINode]
	Create(ctx context.Context, node *storagev1.CSINode, opts metav1.CreateOptions) (*storagev1.CSINode, error)
	Update(ctx context.Context, node *storagev1.CSINode, opts metav1.UpdateOptions) (*storagev1.CSINode, error)
	Delete(ctx context.Context, name string, opts metav1.DeleteOptions) error
}

// API is what a Provider reads and writes of the API server, each object by its name:
// the Node authorizer allows a node neither to list nor to watch them. All fields are
// required. With client-go they are
//
//	csi.API{
//		Claims:      func(namespace string) csi.Claims { return c.CoreV1().PersistentVolumeClaims(namespace) },
//		Volumes:     c.CoreV1().PersistentVolumes(),
//		Secrets:     func(namespace string) csi.Getter[corev1.Secret] { return c.CoreV1().Secrets(namespace) },
//		Attachments: c.StorageV1().VolumeAttachments(),
//		Drivers:     c.StorageV1().CSIDrivers(),
//		Nodes:       c.CoreV1().Nodes(),
//		CSINodes:    c.StorageV1().CSINodes(),
//	}
type API struct {
	Claims      func(namespace string) Claims
	Volumes     Getter[corev1.PersistentVolume]
	Secrets     func(namespace string) Getter[corev1.Secret]
	Attachments Getter[storagev1.VolumeAttachment]
	Drivers     Getter[storagev1.CSIDriver]
	Nodes       Nodes
	CSINodes    CSINodes
}

func (a *API) validate() error {
	missing := []struct {
		name string
		nil  bool
	}{
		{"Claims", a.Claims == nil},
		{"Volumes", a.Volumes == nil},
		{"Secrets", a.Secrets == nil},
		{"Attachments", a.Attachments == nil},
		{"Drivers", a.Drivers == nil},
		{"Nodes", a.Nodes == nil},
		{"CSINodes", a.CSINodes == nil},
	}
	for _, m := range missing {
		if m.nil {
			return fmt.Errorf("csi: Config.API.%s is nil, want the client for it", m.name)
		}
	}
	return nil
}

// Tokens has tokens for the service accounts of pods that a driver asks for, and when
// to ask again. The Cache of podworker/volume/tokens is one.
type Tokens interface {
	ForDriver(ctx context.Context, pod *corev1.Pod, driver string, want storagev1.TokenRequest) (authenticationv1.TokenRequestStatus, time.Time, error)
}

// errNoTokens says that a driver asks for tokens and there is nobody to ask.
var errNoTokens = errors.New("the driver asks for service account tokens, and Config.Tokens is nil")
