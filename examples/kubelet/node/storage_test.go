package node_test

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	certificatesv1client "k8s.io/client-go/kubernetes/typed/certificates/v1"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	storagev1client "k8s.io/client-go/kubernetes/typed/storage/v1"
)

// What follows is the part of an API server that is about storage: it has a CSINode and
// no volumes.

func (c coreClient) PersistentVolumes() corev1client.PersistentVolumeInterface { return volumeClient{} }

func (c coreClient) Nodes() corev1client.NodeInterface { return nodeClient{s: c.s} }

type (
	volumeClient struct {
		corev1client.PersistentVolumeInterface
	}
	nodeClient struct {
		corev1client.NodeInterface
		s *apiServer
	}
	attachmentClient struct {
		storagev1client.VolumeAttachmentInterface
	}
	driverClient struct {
		storagev1client.CSIDriverInterface
	}
)

func (c nodeClient) Get(_ context.Context, name string, _ metav1.GetOptions) (*corev1.Node, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	switch {
	case c.s.down:
		return nil, errRefused
	case c.s.node == "":
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, name)
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: c.s.node}}, nil
}

// CertificatesV1 has no trust bundles that a test needs.
func (c apiClient) CertificatesV1() certificatesv1client.CertificatesV1Interface { return nil }

func (c apiClient) StorageV1() storagev1client.StorageV1Interface { return storageClient{s: c.s} }

type storageClient struct {
	storagev1client.StorageV1Interface
	s *apiServer
}

func (c storageClient) VolumeAttachments() storagev1client.VolumeAttachmentInterface {
	return attachmentClient{}
}
func (c storageClient) CSIDrivers() storagev1client.CSIDriverInterface { return driverClient{} }
func (c storageClient) CSINodes() storagev1client.CSINodeInterface     { return csiNodeClient{s: c.s} }

type csiNodeClient struct {
	storagev1client.CSINodeInterface
	s *apiServer
}

func (c csiNodeClient) Get(_ context.Context, name string, _ metav1.GetOptions) (*storagev1.CSINode, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	node := &storagev1.CSINode{}
	node.Name = name
	node.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: name, UID: c.s.node}}
	return node, c.s.upLocked()
}

func (c csiNodeClient) Update(_ context.Context, node *storagev1.CSINode, _ metav1.UpdateOptions) (*storagev1.CSINode, error) {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return node, c.s.upLocked()
}
