package pullrecord

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"
)

// The form of the files
// (https://kubernetes.io/docs/reference/config-api/kubelet-config.v1beta1/#ImagePulledRecord).
const (
	writtenVersion = "kubelet.config.k8s.io/v1beta1"
	olderVersion   = "kubelet.config.k8s.io/v1alpha1"
	intentKind     = "ImagePullIntent"
	recordKind     = "ImagePulledRecord"
)

// Access says whose credentials give access to an image.
type Access struct {
	// Secrets are image pull secrets.
	Secrets []Secret `json:"kubernetesSecrets,omitempty"`
	// ServiceAccounts are those whose tokens were exchanged for credentials.
	ServiceAccounts []ServiceAccount `json:"kubernetesServiceAccounts,omitempty"`
	// Everybody means that every pod of the node has access: the image needs no
	// credentials or those of the node suffice. The other fields are then empty.
	Everybody bool `json:"nodePodsAccessible,omitempty"`
}

// Secret names an image pull secret.
type Secret struct {
	UID       string `json:"uid"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Hash is that of the credential in it that was used.
	Hash string `json:"credentialHash"`
}

// ServiceAccount names a service account.
type ServiceAccount struct {
	UID       string `json:"uid"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// typeMeta begins every file.
type typeMeta struct {
	Kind       string `json:"kind"`
	APIVersion string `json:"apiVersion"`
}

// intent says that a pull began.
type intent struct {
	typeMeta
	// Image is the name of the image as it was written.
	Image string `json:"image"`
}

// record is all that is known of the pulls of one image.
type record struct {
	typeMeta
	LastUpdated time.Time `json:"lastUpdatedTime"`
	// ImageRef is the id of the image in the runtime.
	ImageRef string `json:"imageRef"`
	// Credentials are by the name of the image as it was written, without tag and
	// digest. A name without any means that its credentials are unknown.
	Credentials map[string]Access `json:"credentialMapping,omitempty"`
}

// grants reports whether a pod with access of its own may use the image by a name
// without another pull. learn is what to add to the record on that occasion.
func (r *record) grants(name string, pod Access) (granted bool, learn Access) {
	known := r.Credentials[name]
	if known.Everybody {
		return true, Access{}
	}
	for _, mine := range pod.Secrets {
		for _, used := range known.Secrets {
			sameHash := mine.Hash != "" && mine.Hash == used.Hash
			// A secret that was changed is trusted as before: it is its owner's way to
			// rotate a password.
			sameSecret := mine.UID == used.UID && mine.Namespace == used.Namespace && mine.Name == used.Name
			switch {
			case sameHash && sameSecret:
				return true, Access{}
			case sameHash || sameSecret:
				return true, Access{Secrets: []Secret{mine}}
			}
		}
	}
	for _, mine := range pod.ServiceAccounts {
		if slices.Contains(known.ServiceAccounts, mine) {
			return true, Access{}
		}
	}
	return false, Access{}
}

// knows reports whether anything in the record could grant a pod the use by a name.
func (r *record) knows(name string) bool {
	a := r.Credentials[name]
	return a.Everybody || len(a.Secrets) > 0 || len(a.ServiceAccounts) > 0
}

// add adds access by a name and reports whether that changed the record.
func (r *record) add(name string, more Access) bool {
	if !more.Everybody && len(more.Secrets) == 0 && len(more.ServiceAccounts) == 0 {
		return false
	}
	known := r.Credentials[name]
	if known.Everybody {
		return false
	}
	merged := Access{Everybody: true}
	if !more.Everybody {
		merged = Access{Secrets: mergeSecrets(known.Secrets, more.Secrets), ServiceAccounts: mergeAccounts(known.ServiceAccounts, more.ServiceAccounts)}
	}
	if merged.Everybody == known.Everybody && slices.Equal(merged.Secrets, known.Secrets) && slices.Equal(merged.ServiceAccounts, known.ServiceAccounts) {
		return false
	}
	if r.Credentials == nil {
		r.Credentials = make(map[string]Access)
	}
	r.Credentials[name] = merged
	return true
}

// mergeSecrets keeps one entry per secret, the one of more.
func mergeSecrets(old, more []Secret) []Secret {
	merged := slices.Clone(old)
	for _, s := range more {
		same := func(o Secret) bool { return o.UID == s.UID && o.Namespace == s.Namespace && o.Name == s.Name }
		if i := slices.IndexFunc(merged, same); i >= 0 {
			merged[i] = s
		} else {
			merged = append(merged, s)
		}
	}
	slices.SortFunc(merged, func(a, b Secret) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	return merged
}

func mergeAccounts(old, more []ServiceAccount) []ServiceAccount {
	merged := slices.Concat(old, more)
	slices.SortFunc(merged, func(a, b ServiceAccount) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name), cmp.Compare(a.UID, b.UID))
	})
	return slices.Compact(merged)
}

// decode reads a file of a kind into a value, whose fields are all that it may have.
func decode(data []byte, kind string, meta *typeMeta, into any) error {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more than one object")
	}
	if meta.Kind != kind || (meta.APIVersion != writtenVersion && meta.APIVersion != olderVersion) {
		return fmt.Errorf("it is kind %q of %q, want %s of %s", meta.Kind, meta.APIVersion, kind, writtenVersion)
	}
	return nil
}

func decodeRecord(data []byte) (*record, error) {
	var r record
	if err := decode(data, recordKind, &r.typeMeta, &r); err != nil {
		return nil, err
	}
	return &r, nil
}

func decodeIntent(data []byte) (*intent, error) {
	var i intent
	if err := decode(data, intentKind, &i.typeMeta, &i); err != nil {
		return nil, err
	}
	return &i, nil
}
