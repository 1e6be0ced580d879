package berth_test

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-backup/berth"
	"github.com/berth-backup/berth/worker/backup"
)

// docs/compatibility.md tells of every field of the spec and of every object in
// the store, and each line names a test that exists.
func TestCompatibilityIsTold(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("docs/compatibility.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := regexp.MustCompile(`(?m)^\| (.+?) \| (same|better|refused) \| .*\| (.+?) \|$`).FindAllStringSubmatch(string(text), -1)
	var fields, objects []string
	tests := testNames(t)
	for _, line := range lines {
		what := strings.Trim(line[1], "`")
		switch {
		case strings.HasPrefix(what, "<name>"), what == "velero-backup.json":
			objects = append(objects, what)
		case strings.HasPrefix(line[1], "`") && regexp.MustCompile("^[a-zA-Z]+$").MatchString(what):
			fields = append(fields, what)
		}
		named := regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(line[3], -1)
		if len(named) == 0 {
			t.Errorf("%s names no test", line[1])
		}
		for _, name := range named {
			if !tests[name[1]] {
				t.Errorf("%s names %s, which does not exist", line[1], name[1])
			}
		}
	}
	var want []string
	for field := range reflect.TypeFor[berth.Spec]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		want = append(want, name)
	}
	slices.Sort(want)
	slices.Sort(fields)
	if diff := cmp.Diff(want, slices.Compact(fields)); diff != "" {
		t.Errorf("fields (-spec +page):\n%s", diff)
	}
	wantObjects := []string{"velero-backup.json"}
	for _, artefact := range backup.Artefacts() {
		wantObjects = append(wantObjects, backup.ObjectName("<name>", artefact))
	}
	slices.Sort(wantObjects)
	slices.Sort(objects)
	if diff := cmp.Diff(wantObjects, objects); diff != "" {
		t.Errorf("objects (-written +page):\n%s", diff)
	}
}

// testNames are those of all tests of this module.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)\(`)
	err := filepath.WalkDir(".", func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, found := range function.FindAllStringSubmatch(string(text), -1) {
			names[found[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
