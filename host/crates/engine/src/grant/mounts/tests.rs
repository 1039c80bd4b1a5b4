use super::*;
use crate::grant::checked::ReachableMounts;
use proptest::prelude::*;

/// A table whose lines are `id parent device root at kind options`.
fn table(lines: &[&str]) -> Mounts {
    Mounts::of(text(lines).as_bytes(), Some(1), |path| {
        // Paths below `/short` are links into `/store`. Otherwise only `/elsewhere` is missing.
        match path.strip_prefix("/short") {
            Ok(rest) => Some(Path::new("/store").join(rest)),
            Err(_) => (!path.starts_with("/elsewhere")).then(|| path.to_owned()),
        }
    })
}

fn text(lines: &[&str]) -> String {
    let line = |line: &&str| {
        let words: Vec<_> = line.split(' ').collect();
        let [id, parent, device, root, at, kind] = words[..6] else { panic!("{line}") };
        let more = words.get(6).unwrap_or(&"rw");
        format!("{id} {parent} {device} {root} {at} rw,relatime shared:1 master:2 - {kind} /dev/x {more}\n")
    };
    lines.iter().map(line).collect()
}

fn place(device: u32, path: &str) -> DevicePath {
    DevicePath { device: (8, device), path: path.as_bytes().to_vec() }
}

fn places(mounts: &Mounts, path: &str) -> Vec<DevicePath> {
    mounts.places(Path::new(path))
}

#[test]
fn a_line_is_read_as_the_kernel_writes_it() {
    let line = b"36 35 98:0 /mnt1 /mnt\\040two/a\\134b\\011\\012 rw,noatime master:1 - ext4 /dev/root rw";
    let mount = Mount::read(line).expect("a line");
    assert_eq!((mount.id, mount.parent, mount.device), (36, 35, (98, 0)));
    assert_eq!((mount.root.as_slice(), mount.at.as_slice()), (&b"/mnt1"[..], &b"/mnt two/a\\b\t\n"[..]));
    // Without optional fields, with a root that is not a path, and with a removed root.
    let mount = Mount::read(b"1 0 0:4 net:[4026531840] /run/ns rw - nsfs nsfs rw").expect("a line");
    assert_eq!((mount.kind.as_str(), mount.at()), ("nsfs", Path::new("/run/ns")));
    let mount = Mount::read(b"1 0 0:4 /a//deleted /b rw - ext4 x rw").expect("a line");
    assert_eq!(mount.root, b"/a");
    for line in
        [&b""[..], b"a b c d e f - ", b"1 0 8:1 / / rw", b"1 0 8 / / rw - ext4 x rw", b"1 0 8:1 / / rw -"]
    {
        assert!(Mount::read(line).is_none(), "{line:?}");
    }
    assert_eq!(unescaped(b"\\0"), b"\\0");
    assert_eq!(unescaped(b"\\999x"), b"\\999x");
}

#[test]
fn a_place_is_found_through_bind_mounts_and_what_covers_them() {
    let mounts = table(&[
        "1 0 8:1 / / ext4",
        "2 1 8:2 / /vol xfs",
        "3 1 8:2 /data /srv/data xfs",
        "4 1 8:2 /plugins/own /srv/plug\\040in xfs",
        // Two mounts at the same point, and one below the upper mount.
        "5 1 8:5 / /stack ext4",
        "6 5 8:6 /sub /stack ext4",
        "7 6 8:7 / /stack/in ext4",
        // Hidden: the later mount at `/a` covers `/a/b/c`.
        "8 1 8:8 / /a/b/c ext4",
        "9 1 8:9 / /a ext4",
    ]);
    for (path, device, is) in [
        ("/", 1, ""),
        ("/srv", 1, "/srv"),
        ("/srv/datas", 1, "/srv/datas"),
        ("/vol/data/x", 2, "/data/x"),
        ("/srv/data", 2, "/data"),
        ("/srv/data/x/y", 2, "/data/x/y"),
        ("/srv/plug in/z", 2, "/plugins/own/z"),
        ("/stack/x", 6, "/sub/x"),
        ("/stack/in/x", 7, "/x"),
        ("/a/b/c/d", 9, "/b/c/d"),
    ] {
        assert_eq!(places(&mounts, path), [place(device, is)], "{path}");
    }
    let inside = |path: &str| {
        let found = mounts.inside(Path::new(path)).map(|(mount, is_met)| (mount.id, is_met));
        found.collect::<Vec<_>>()
    };
    assert_eq!(inside("/srv"), [(3, true), (4, true)]);
    assert_eq!(inside("/srv/data"), []);
    assert_eq!(inside("/stack"), [(7, true)]);
    assert_eq!(inside("/a"), [(8, false)]);
    assert_eq!(inside("/").len(), 8);
    // A folder that was opened before another mount covered it.
    let both = mounts.places_in(Some(5), Path::new("/stack/x"));
    assert_eq!(both, [place(6, "/sub/x"), place(5, "/x")]);
}

#[test]
fn subvolumes_of_btrfs_are_places_in_one_file_system() {
    let mounts = table(&[
        "1 0 8:1 /@ / btrfs rw,subvolid=256,subvol=/@",
        "2 1 8:1 /@home /home btrfs rw,subvol=/@home",
        "3 1 8:1 / /mnt/top btrfs rw,subvolid=5",
    ]);
    let [data, top, other] =
        ["/home/me/data", "/mnt/top/@home/me", "/mnt/top/@"].map(|path| places(&mounts, path));
    assert!(top[0].holds(&data[0]) && !other[0].holds(&data[0]));
    assert!(other[0].holds(&places(&mounts, "/etc")[0]));
}

#[test]
fn an_overlay_shows_the_places_of_its_layers_that_exist_here() {
    let mounts = table(&[
        "1 0 8:1 / / ext4",
        "2 1 8:2 / /store ext4",
        "3 1 8:3 / /merged overlay rw,lowerdir=/short/low:/od\\134:d\\054x:/elsewhere/low,upperdir=/srv/up,workdir=/w",
        "4 1 8:4 / /new overlay rw,lowerdir+=/merged/a,datadir+=/srv/data,redirect_dir=on",
        "5 1 8:5 / /round overlay rw,lowerdir=/round/x",
    ]);
    let found = places(&mounts, "/merged/a/b");
    for is in [place(2, "/low/a/b"), place(1, "/od:d,x/a/b"), place(1, "/srv/up/a/b"), place(3, "/a/b")] {
        assert!(found.contains(&is), "{is:?} {found:?}");
    }
    assert_eq!(found.len(), 4);
    // Overlays on overlays, and one that contains itself, which must terminate.
    assert!(places(&mounts, "/new/b").contains(&place(1, "/srv/up/a/b")));
    assert!(places(&mounts, "/new/b").contains(&place(1, "/srv/data/b")));
    assert_eq!(places(&mounts, "/round/y").len(), MAX_OVERLAYS + 1);
}

#[test]
fn what_is_protected_is_found_by_any_mount() {
    let mounts = table(&[
        "1 0 8:1 / / ext4",
        "2 1 8:2 / /vol xfs",
        "3 1 8:2 /data /run/data xfs",
        "4 1 8:1 / /srv/all ext4",
        "5 1 8:2 /data/db /srv/one/db xfs",
        "6 1 8:2 /data /srv/two/x xfs",
        "7 1 8:2 /other /srv/three/x xfs",
    ]);
    let data = places(&mounts, "/run/data");
    let way: Vec<_> = ["/", "/run", "/run/data"].iter().flat_map(|path| places(&mounts, path)).collect();
    for (path, holds, lies_in) in [
        ("/vol", true, false),
        ("/vol/data", true, true),
        ("/vol/data/in", false, true),
        ("/vol/dat", false, false),
        ("/srv", true, true),
        ("/srv/all", true, false),
        ("/srv/one", false, true),
        ("/srv/two", true, true),
        ("/srv/three", false, false),
    ] {
        let inner = mounts.inside(Path::new(path)).flat_map(|(mount, _)| mounts.roots(mount)).collect();
        let reach = ReachableMounts::with(places(&mounts, path), inner);
        assert_eq!((reach.holds_any(&way), reach.lies_in_any(&data)), (holds, lies_in), "{path}");
    }
}

#[test]
fn what_can_be_replaced_through_another_mount_lies_within() {
    let mounts =
        table(&["1 0 8:1 / / ext4", "2 1 8:2 / /vol xfs", "3 1 8:2 /a /srv/a xfs", "4 1 8:4 / /vol/a/m xfs"]);
    let reach = |path: &str| {
        let above = Path::new(path).ancestors().skip(1).flat_map(|above| mounts.places(above)).collect();
        let mut reach = ReachableMounts::with(places(&mounts, path), Vec::new());
        reach.above = above;
        reach
    };
    for (inner, outer, is) in [
        ("/srv/a/in", "/vol", true),
        ("/srv/a/in", "/vol/a", true),
        ("/srv/a", "/vol", true),
        // Exactly the same folder.
        ("/srv/a", "/vol/a", false),
        ("/srv/a", "/vol/b", false),
        ("/vol/a", "/srv/a/in", false),
        // A mount inside it. The mount point cannot be moved, but the folders above it can.
        ("/vol/a/m", "/srv/a", true),
    ] {
        assert_eq!(reach(inner).is_within(&reach(outer)), is, "{inner} {outer}");
    }
}

#[test]
fn a_table_of_any_length_is_read_and_one_that_goes_round_ends() {
    let lines: Vec<String> = (2..20_000).map(|n| format!("{n} 1 8:{n} / /mnt/{n} ext4")).collect();
    let lines: Vec<&str> = ["1 0 8:1 / / ext4"].into_iter().chain(lines.iter().map(String::as_str)).collect();
    let mounts = table(&lines);
    assert_eq!(places(&mounts, "/mnt/19999/x"), [place(19_999, "/x")]);
    let round = table(&["1 2 8:1 / / ext4", "2 1 8:2 / / ext4", "3 3 8:3 / /x ext4"]);
    assert!(places(&round, "/x").len() <= 1);
    assert_eq!(places(&table(&[]), "/x"), []);
}

/// Resolves a path through these mounts in the simplest way: name by name, through the latest mount
/// at each folder.
fn naive(made: &[(u32, String, String)], path: &str) -> DevicePath {
    let mut here = (1, String::new());
    for name in path.split('/').skip(1) {
        here.1 = format!("{}/{name}", here.1);
        while let Some((device, root, _)) = made.iter().rev().find(|(_, _, at)| *at == key(&here)) {
            here = (*device, root.clone());
        }
    }
    place(here.0, &here.1)
}

/// The key of a folder. Each mount has a new device, so each folder is in only one mount.
fn key((device, path): &(u32, String)) -> String {
    format!("{device}{path}")
}

proptest! {
    #[test]
    fn places_are_those_that_the_kernel_leads_to(
        points in proptest::collection::vec(("(/[ab]){1,3}", "(/[cd]){0,2}"), 0..8),
        path in "(/[ab]){1,5}",
    ) {
        let mut made: Vec<(u32, String, String)> = Vec::new();
        let mut lines = vec!["1 0 8:1 / / ext4".to_owned()];
        for (n, (at, root)) in points.iter().enumerate() {
            let device = u32::try_from(n).expect("few") + 2;
            let point = naive(&made, at);
            let parent = point.device.1;
            made.push((device, root.clone(), key(&(parent, String::from_utf8(point.path).expect("plain")))));
            let shown = if root.is_empty() { "/" } else { root };
            lines.push(format!("{device} {parent} 8:{device} {shown} {at} ext4"));
        }
        let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
        prop_assert_eq!(places(&table(&lines), &path), [naive(&made, &path)]);
    }

    #[test]
    fn no_text_brings_it_down(text in proptest::collection::vec(any::<u8>(), 0..400), path in "(/[a-c]{0,2}){0,4}") {
        let mounts = Mounts::of(&text, None, |_| None);
        let _ = mounts.places(Path::new(&path));
        let lines: Vec<u8> = text.iter().map(|byte| b"0123456789 /:-\\\na"[usize::from(byte % 17)]).collect();
        let mounts = Mounts::of(&lines, Some(0), |_| None);
        let _ = mounts.places(Path::new(&path));
        let _ = mounts.inside(Path::new("/")).count();
    }
}
