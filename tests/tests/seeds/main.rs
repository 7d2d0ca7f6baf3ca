//! What this project grew from, feature by feature: one test for each row of the list of what four
//! documents ask for.

mod question;
