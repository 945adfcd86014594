package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
)

// Set applies `key=value` assignments to v, a pointer to a struct, in order. A key is a path through structs, maps and lists
// (`cameras.0.rate_hz`, `cameras[0].rate_hz`); a value is YAML, except that a string field takes it as it stands. An unknown
// key gives the nearest valid one. After an error v is not to be used. If v is a Validator, Validate runs last.
func Set(v any, assignments ...string) error {
	for _, a := range assignments {
		key, value, ok := strings.Cut(a, "=")
		if !ok || key == "" {
			return fmt.Errorf("set %q: want key=value", a)
		}
		path := strings.Split(strings.NewReplacer("[", ".", "]", "").Replace(key), ".")
		if err := assign(reflect.ValueOf(v).Elem(), path, "", value); err != nil {
			return fmt.Errorf("set %s: %w", a, err)
		}
	}
	if len(assignments) == 0 {
		return nil
	}
	return validate("after "+strings.Join(assignments, " "), v)
}

// assign descends into at along path and decodes value there; done is the path walked so far, for messages.
func assign(at reflect.Value, path []string, done, value string) error {
	if at.Kind() == reflect.Pointer {
		if at.IsNil() {
			at.Set(reflect.New(at.Type().Elem()))
		}
		return assign(at.Elem(), path, done, value)
	}
	if len(path) == 0 {
		return decodeValue(at, value)
	}
	switch at.Kind() {
	case reflect.Struct:
		return assignField(at, path, done, value)
	case reflect.Map:
		return assignEntry(at, path, done, value)
	case reflect.Slice, reflect.Array:
		i, err := strconv.Atoi(path[0])
		if err != nil || i < 0 || i >= at.Len() {
			return fmt.Errorf("%s has entries 0 to %d, not %q", done, at.Len()-1, path[0])
		}
		return assign(at.Index(i), path[1:], join(done, path[0]), value)
	default:
		return fmt.Errorf("%s is a single value without a key %q", done, path[0])
	}
}

func assignField(at reflect.Value, path []string, done, value string) error {
	fields := fieldsOf(at.Type())
	f, ok := fields.byName[path[0]]
	if !ok {
		return fmt.Errorf("%s", unknownKey(path[0], done, fields.names))
	}
	target := at
	for _, i := range f.Index {
		for target.Kind() == reflect.Pointer {
			if target.IsNil() {
				target.Set(reflect.New(target.Type().Elem()))
			}
			target = target.Elem()
		}
		target = target.Field(i)
	}
	return assign(target, path[1:], join(done, path[0]), value)
}

// assignEntry replaces one entry of a map: entries are not addressable, so a copy is changed and put back.
func assignEntry(at reflect.Value, path []string, done, value string) error {
	key := reflect.New(at.Type().Key()).Elem()
	if err := decodeValue(key, path[0]); err != nil {
		return err
	}
	entry := reflect.New(at.Type().Elem()).Elem()
	if old := at.MapIndex(key); old.IsValid() {
		entry.Set(old)
	}
	if err := assign(entry, path[1:], join(done, path[0]), value); err != nil {
		return err
	}
	if at.IsNil() {
		at.Set(reflect.MakeMap(at.Type()))
	}
	at.SetMapIndex(key, entry)
	return nil
}

func decodeValue(at reflect.Value, value string) error {
	if at.Kind() == reflect.String && !decodesItself(at.Type()) {
		at.SetString(value)
		return nil
	}
	fresh := reflect.New(at.Type())
	if err := Decode("value", []byte(value), fresh.Interface()); err != nil {
		return err
	}
	at.Set(fresh.Elem())
	return nil
}
