package backup

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
)

// found is what a cluster says that it has.
type found struct {
	version version.Info
	// resources are in the order in which names are looked up in them.
	resources []resource
	// failures are groups that could not be discovered; the others could.
	failures []string
}

// discover asks the cluster for its version and its resources, each in the
// version that the cluster prefers. A group that does not answer is a failure
// among others; an error means that nothing is known.
func (c *Cluster) discover(ctx context.Context) (found, error) {
	ctx, cancel := context.WithTimeout(ctx, c.options.RequestTimeout)
	defer cancel()
	client, err := discovery.NewDiscoveryClientForConfigAndClient(c.config, &http.Client{Transport: bound{ctx, c.transport}})
	if err != nil {
		return found{}, fmt.Errorf("discover the cluster's resources: %w", err)
	}
	info, err := client.ServerVersion()
	if err != nil {
		return found{}, undiscovered(err)
	}
	lists, err := client.ServerPreferredResources()
	failed, partial := discovery.GroupDiscoveryFailedErrorGroups(err)
	if err != nil && (!partial || len(lists) == 0) {
		return found{}, undiscovered(err)
	}
	if ctx.Err() != nil {
		return found{}, fmt.Errorf("discover the cluster's resources: %w", context.Cause(ctx))
	}
	resources, err := resourcesOf(lists)
	if err != nil {
		return found{}, err
	}
	if !slices.ContainsFunc(resources, resource.isNamespaces) {
		return found{}, errors.New("discover the cluster's resources: the answer lacks namespaces, so it cannot be whole")
	}
	return found{version: *info, resources: resources, failures: failuresOf(failed)}, nil
}

// undiscovered tells an API server that refuses to say what it has, which is a
// Failure, from one that is away or in trouble.
func undiscovered(err error) error {
	if statusOf(err) == 0 || isPassing(err) {
		return fmt.Errorf("discover the cluster's resources: %w", err)
	}
	return &Failure{Reason: ReasonDiscovery, Message: fmt.Sprintf("discover the cluster's resources: %v", err)}
}

func failuresOf(failed map[schema.GroupVersion]error) []string {
	var lines []string
	for group, err := range failed {
		lines = append(lines, fmt.Sprintf("the API %s cannot be discovered, so nothing of it is backed up: %v", group, err))
	}
	slices.Sort(lines)
	return lines
}

// resourcesOf reads what discovery answers. The group extensions comes last,
// so that what it shows a second time is taken from where it belongs.
func resourcesOf(lists []*metav1.APIResourceList) ([]resource, error) {
	lists = slices.Clone(lists)
	last := func(l *metav1.APIResourceList) int {
		if strings.HasPrefix(l.GroupVersion, "extensions/") {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(lists, func(a, b *metav1.APIResourceList) int { return cmp.Compare(last(a), last(b)) })
	var all []resource
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			return nil, fmt.Errorf("discover the cluster's resources: %w", err)
		}
		var group []resource
		for _, r := range list.APIResources {
			if strings.Contains(r.Name, "/") {
				continue // a part of another resource, such as pods/status
			}
			group = append(group, resource{
				group: cmp.Or(r.Group, gv.Group), version: cmp.Or(r.Version, gv.Version),
				plural: r.Name, singular: r.SingularName, kind: r.Kind, shortNames: r.ShortNames,
				namespaced: r.Namespaced, collectable: hasVerbs(r.Verbs, "list", "create", "get"),
			})
		}
		// Within a group the client gives them in no order.
		slices.SortFunc(group, func(a, b resource) int { return cmp.Compare(a.plural, b.plural) })
		all = append(all, group...)
	}
	return all, nil
}

func hasVerbs(has []string, verbs ...string) bool {
	return !slices.ContainsFunc(verbs, func(verb string) bool { return !slices.Contains(has, verb) })
}

// serves says whether the cluster still has a resource. In doubt it does.
func (c *Cluster) serves(ctx context.Context, r resource) bool {
	body, err := c.rest.Get().AbsPath(path.Dir(r.url(""))).SetHeader("Accept", "application/json").DoRaw(ctx)
	if err != nil {
		return statusOf(err) != http.StatusNotFound
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal(body, &list); err != nil {
		return true
	}
	return slices.ContainsFunc(list.APIResources, func(served metav1.APIResource) bool { return served.Name == r.plural })
}

// bound ends requests with a context: client-go's discovery takes none.
type bound struct {
	ctx       context.Context
	transport http.RoundTripper
}

func (b bound) RoundTrip(request *http.Request) (*http.Response, error) {
	return b.transport.RoundTrip(request.WithContext(b.ctx))
}
