//! A hint to the processor that memory will be read soon.

/// Asks for the cache line of `value`. Changes nothing that a program can see.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program can observe and cannot fault; SSE is part of x86_64. The
        // pointer is that of a live reference anyway.
        unsafe { _mm_prefetch(std::ptr::from_ref(value).cast::<i8>(), _MM_HINT_T0) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// The same for the element at `index`, if there is one.
#[inline(always)]
pub fn prefetch_at<T>(slice: &[T], index: usize) {
    if let Some(value) = slice.get(index) {
        prefetch(value);
    }
}
