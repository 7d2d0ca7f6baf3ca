//! The report of a run, opened in a browser.

#![allow(clippy::unwrap_used, reason = "a failed run fails its test")]

mod common;

use common::{mnist_line, scratch, write_pair};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const BROWSERS: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];

/// A screenshot of a page, in the PNG format; `None` without a browser.
fn shown(page: &Path) -> Option<Vec<u8>> {
    let browser = BROWSERS.into_iter().find(|browser| {
        let version = Command::new(browser).arg("--version").output();
        version.is_ok_and(|version| version.status.success())
    })?;
    let picture = page.with_extension("png");
    let mut child = Command::new(browser)
        .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"])
        .arg(format!("--user-data-dir={}", page.with_extension("profile").display()))
        .arg("--window-size=1200,2400")
        .arg(format!("--screenshot={}", picture.display()))
        .arg(format!("file://{}", page.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let begun = Instant::now();
    while child.try_wait().unwrap().is_none() {
        let late = begun.elapsed() > Duration::from_secs(60);
        if late {
            child.kill().unwrap();
        }
        assert!(!late, "{browser} does not end");
        std::thread::sleep(Duration::from_millis(10));
    }
    Some(fs::read(picture).unwrap())
}

#[test]
fn a_browser_shows_the_curves_of_a_run_and_asks_nobody() {
    let dir = scratch("report");
    write_pair(&dir, 250);
    let report = dir.join("report.html");
    let line = "--model mlp --optimizer adam --batch 20 --epochs 3 --mesh r:2;c:2 \
                --layout batch:r;hidden1:c;slots/*:r --data";
    let flags = [dir.to_str().unwrap(), "--report", report.to_str().unwrap()];
    mnist_line(line, &flags).well();
    let page = fs::read_to_string(&report).unwrap();
    for outside in ["http:", "https:", "src=", "href=", "url(", "@import", "<script"] {
        assert!(!page.contains(outside), "{outside}");
    }
    for said in ["mnist: mlp, adam", "accuracy", "30", "hidden1:c", "reduce_scatter", "mnist.rs:"] {
        assert!(page.contains(said), "no {said:?}");
    }
    let Some(picture) = shown(&report) else {
        tests::skip("browser", &format!("there is none of {}", BROWSERS.join(", ")));
        return;
    };
    // PNG files of uniform pictures are small: an empty page has about 10 kB, one without curves
    // less.
    let bare = dir.join("bare.html");
    fs::write(&bare, page.replace("<polyline", "<none")).unwrap();
    let without = shown(&bare).unwrap();
    println!("{} bytes, {} without curves", picture.len(), without.len());
    assert!(without.len() > 50_000, "the page is empty");
    assert!(picture.len() > without.len() + 2_000, "the curves do not show");
}
