package images

import (
	"slices"
	"strings"
	"testing"
)

func TestRecipeNamesWhatIsInTheImages(t *testing.T) {
	repo, err := openRepository(t.Context())
	must(t, err)
	got, err := clusterSet().recipe(t.Context(), repo)
	must(t, err)
	for _, want := range []string{"image " + PauseRef, "tool coredns v", "program hack/images/pause "} {
		if !strings.Contains(string(got), "\n"+want) {
			t.Errorf("no line %q… in the recipe\n%s", want, got)
		}
	}
	if again, err := clusterSet().recipe(t.Context(), repo); err != nil || again.digest() != got.digest() {
		t.Errorf("the digest of one recipe changes: %v", err)
	}
	other := clusterSet()
	other.images = slices.Clone(other.images)
	other.images[0].config.User = "0"
	if changed, err := other.recipe(t.Context(), repo); err != nil || changed.digest() == got.digest() {
		t.Errorf("another user, same digest: %v", err)
	}
}

func TestNoImageIsInBothArchives(t *testing.T) {
	for _, ref := range SuitesRefs() {
		if slices.Contains(ClusterRefs(), ref) {
			t.Errorf("%s is in the archives of both", ref)
		}
	}
}
