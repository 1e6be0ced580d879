package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// veleroNamespace is where the Backup objects stand.
const veleroNamespace = "velero"

// weight says how much the first namespace holds beside the sample objects.
type weight struct {
	configMaps, bytes int
}

var (
	// heavyFirst makes the backup of ns1 take some seconds.
	heavyFirst = weight{configMaps: 240, bytes: 900_000}
	smallFirst = weight{}
)

// createSamples makes the namespaces ns1 … ns9 and what is in them. A cluster
// that has one of them already is left as it is.
func (s *setup) createSamples(ctx context.Context, first weight) error {
	config := rest.CopyConfig(s.cluster)
	config.QPS = -1
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("make a Kubernetes client: %w", err)
	}
	for i := 1; i <= 9; i++ {
		name := fmt.Sprintf("ns%d", i)
		if _, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{}); err == nil {
			return fmt.Errorf("the cluster has a namespace %s already: the demo makes ns1 … ns9 itself", name)
		} else if !apierrors.IsNotFound(err) {
			return fmt.Errorf("look for namespace %s: %w", name, err)
		}
	}
	s.samples = true
	for i := 1; i <= 9; i++ {
		if err := createSample(ctx, client, fmt.Sprintf("ns%d", i)); err != nil {
			return fmt.Errorf("create the samples: %w", err)
		}
	}
	return createWeight(ctx, client, first)
}

// createSample makes one namespace with a little of everything.
func createSample(ctx context.Context, client kubernetes.Interface, ns string) error {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Name: name, Labels: map[string]string{"app": "sample"}}
	}
	if err := createNamespace(ctx, client, ns); err != nil {
		return err
	}
	pod := corev1.PodSpec{
		Containers: []corev1.Container{{
			Name: "web", Image: "web", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
		}},
		Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"},
		}}},
	}
	selector := map[string]string{"app": "sample"}
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	mode := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	options := metav1.CreateOptions{}
	var made []error
	note := func(_ any, err error) {
		if !apierrors.IsAlreadyExists(err) {
			made = append(made, err)
		}
	}
	note(client.CoreV1().ConfigMaps(ns).Create(ctx, &corev1.ConfigMap{ObjectMeta: meta("settings"), Data: map[string]string{"greeting": "hello from " + ns}}, options))
	note(client.CoreV1().Secrets(ns).Create(ctx, &corev1.Secret{ObjectMeta: meta("password"), StringData: map[string]string{"password": "secret of " + ns}}, options))
	note(client.CoreV1().ServiceAccounts(ns).Create(ctx, &corev1.ServiceAccount{ObjectMeta: meta("web")}, options))
	note(client.CoreV1().Services(ns).Create(ctx, &corev1.Service{ObjectMeta: meta("web"), Spec: corev1.ServiceSpec{Selector: selector, Ports: []corev1.ServicePort{{Port: 80}}}}, options))
	note(client.CoreV1().PersistentVolumes().Create(ctx, &corev1.PersistentVolume{ObjectMeta: meta("data-" + ns), Spec: corev1.PersistentVolumeSpec{
		Capacity: size, AccessModes: mode, StorageClassName: "manual",
		ClaimRef:               &corev1.ObjectReference{Kind: "PersistentVolumeClaim", APIVersion: "v1", Namespace: ns, Name: "data"},
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data/" + ns}},
	}}, options))
	class := "manual"
	note(client.CoreV1().PersistentVolumeClaims(ns).Create(ctx, &corev1.PersistentVolumeClaim{ObjectMeta: meta("data"), Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: mode, StorageClassName: &class, VolumeName: "data-" + ns, Resources: corev1.VolumeResourceRequirements{Requests: size},
	}}, options))
	note(client.CoreV1().Pods(ns).Create(ctx, &corev1.Pod{ObjectMeta: meta("web-0"), Spec: pod}, options))
	note(client.AppsV1().Deployments(ns).Create(ctx, &appsv1.Deployment{ObjectMeta: meta("web"), Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: selector},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: selector}, Spec: pod},
	}}, options))
	note(client.RbacV1().Roles(ns).Create(ctx, &rbacv1.Role{ObjectMeta: meta("reader"), Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"get"}}}}, options))
	note(client.RbacV1().RoleBindings(ns).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta("reader"),
		RoleRef:  rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "Role", Name: "reader"},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "web", Namespace: ns}}}, options))
	note(client.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta("sample:" + ns), Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"nodes"}, Verbs: []string{"list"}}}}, options))
	note(client.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta("sample:" + ns),
		RoleRef:  rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "sample:" + ns},
		Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "web", Namespace: ns}}}, options))
	return errors.Join(made...)
}

func createNamespace(ctx context.Context, client kubernetes.Interface, name string) error {
	_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create namespace %s: %w", name, err)
	}
	return nil
}

// createWeight fills ns1 with ConfigMaps that do not compress.
func createWeight(ctx context.Context, client kubernetes.Interface, w weight) error {
	const workers = 8
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	numbers := make(chan int)
	failed := make(chan error, workers)
	for range workers {
		go func() {
			for n := range numbers {
				if err := createHeavy(ctx, client, n, w.bytes); err != nil {
					failed <- err
					cancel()
					return
				}
			}
			failed <- nil
		}()
	}
	started, reported := time.Now(), time.Now()
	for n := range w.configMaps {
		if time.Since(reported) > 2*time.Second {
			reported = time.Now()
			fmt.Fprintf(os.Stderr, "filling ns1: %d of %d ConfigMaps, %s\n", n, w.configMaps, time.Since(started).Round(time.Second))
		}
		select {
		case numbers <- n:
		case <-ctx.Done():
		}
	}
	close(numbers)
	var failures []error
	for range workers {
		failures = append(failures, <-failed)
	}
	return errors.Join(failures...)
}

func createHeavy(ctx context.Context, client kubernetes.Interface, n, bytes int) error {
	raw := make([]byte, bytes*3/4)
	if _, err := rand.Read(raw); err != nil {
		return err
	}
	_, err := client.CoreV1().ConfigMaps("ns1").Create(ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("heavy-%03d", n)},
		Data:       map[string]string{"noise": base64.StdEncoding.EncodeToString(raw)},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("fill ns1: %w", err)
	}
	return nil
}
